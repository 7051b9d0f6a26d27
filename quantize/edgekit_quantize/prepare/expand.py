"""Drops Expand nodes whose readers broadcast anyway: expanding a mask to the data's size costs more than using it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import bypass, constant, integer, is_standard, static_shape

ELEMENTWISE = ("Cast", "Clip", "Sqrt", "Relu", "Abs", "Neg", "Exp", "Log", "Sigmoid", "Reciprocal", "Not")
"""Operators whose output has the shape of their first input; Clip's limits are scalars."""
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Where", "Max", "Min", "Equal", "Greater", "Less", "And", "Or", "Pow")
"""Operators whose inputs are broadcast to one shape."""
REDUCING = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
"""Operators that reduce axes; over axes that Expand does not change, their result is the same, but not expanded."""

Shape = tuple[int, ...]


def drop_expands(graph: ir.Graph) -> int:
    """Let the readers of an Expand read its input if that changes no result; returns the number of dropped nodes."""
    dropped = 0
    for node in list(graph):
        if not is_standard(node, "Expand") or node.outputs[0].is_graph_output():
            continue
        data, small, target = node.inputs[0], static_shape(node.inputs[0]), constant(node.inputs[1])
        if data is None or small is None or target is None:
            continue
        full = np.broadcast_shapes(small, tuple(int(dim) for dim in target))
        narrowing = _Narrowing(graph)
        if len(small) == len(full) and narrowing.suits(node.outputs[0], small, full):
            bypass(node, data)
            for value, shape in narrowing.narrowed.items():
                value.shape = ir.Shape(shape)
            dropped += 1
    return dropped


class _Narrowing:
    """Finds out whether a value may have the size 1 along axes along which it is constant."""

    def __init__(self, graph: ir.Graph) -> None:
        self.narrowed: dict[ir.Value, Shape] = {}
        """The value and those behind it that become smaller, with their new shapes."""
        self._graph = graph
        self._relied_on: set[ir.Value] = set()
        """The values whose shapes must stay."""

    def suits(self, value: ir.Value, small: Shape, full: Shape) -> bool:
        """Whether all readers of ``value`` allow it to have the shape ``small`` instead of ``full``."""
        return self._follow(value, small, full) and self._relied_on.isdisjoint({*self.narrowed, value})

    def _follow(self, value: ir.Value, small: Shape, full: Shape) -> bool:
        if small == full:
            return True
        if value.is_graph_output():
            return False
        self.narrowed[value] = small
        return all(node.graph is self._graph and self._reader(node, index, small, full) for node, index in value.uses())

    def _reader(self, node: ir.Node, index: int, small: Shape, full: Shape) -> bool:
        output = node.outputs[0]
        if is_standard(node, *ELEMENTWISE) and index == 0:
            return self._follow(output, small, full)
        if is_standard(node, *BROADCASTING):
            others = [value for place, value in enumerate(node.inputs) if place != index and value is not None]
            shapes = [shape for shape in map(static_shape, others) if shape is not None]
            if len(shapes) < len(others):
                return False
            self._relied_on.update(others)
            now, then = np.broadcast_shapes(full, *shapes), np.broadcast_shapes(small, *shapes)
            return len(now) == len(then) and self._follow(output, then, now)
        if is_standard(node, *REDUCING) and index == 0:
            axes = _axes(node, len(full))
            if axes is None or any(small[axis] != full[axis] for axis in axes):
                return False
            return self._follow(output, _reduced(node, small, axes), _reduced(node, full, axes))
        return False


def _axes(node: ir.Node, rank: int) -> set[int] | None:
    """The axes that a reduction removes; None if they are not known."""
    if len(node.inputs) > 1:
        given = constant(node.inputs[1])
        axes: Sequence[int] | None = None if given is None else [int(axis) for axis in given]
    else:
        attribute = node.attributes.get("axes")
        axes = None if attribute is None else list(attribute.as_ints())
    return None if not axes else {axis % rank for axis in axes}


def _reduced(node: ir.Node, shape: Shape, axes: set[int]) -> Shape:
    if integer(node, "keepdims", 1):
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
