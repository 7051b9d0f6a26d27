"""Reductions that runtimes refuse for some types or sizes, by reductions that they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import rank_of, typed

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)

SPATIAL = 2
"""The axes from this one on are those of a picture."""


class SummedPool(Rewrite):
    """``GlobalLpPool`` as the root of a sum of powers."""

    name: ClassVar[str] = "global pool by a sum"
    op_types: ClassVar[Sequence[str]] = ("GlobalLpPool",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of a picture of any size."""
        x, dtype = typed(node.inputs[0])
        axes = list(range(SPATIAL, rank_of(x)))
        if not axes:
            raise InapplicableError("its input has no axes beside batch and channels")
        power = node.attributes.get_int("p", 2)
        if power == 1:
            return [build.reduce("ReduceSum", build("Abs", x), axes)]
        if power == 2:
            return [build("Sqrt", build.reduce("ReduceSum", build("Mul", x, x), axes))]
        powers = build("Pow", build("Abs", x), np.asarray(power, dtype.numpy()))
        return [build("Pow", build.reduce("ReduceSum", powers, axes), np.asarray(1 / power, dtype.numpy()))]


class NarrowExtreme(Rewrite):
    """``ReduceMax`` and ``ReduceMin`` of 8-bit integers, in 32 bits."""

    name: ClassVar[str] = "extreme of 8-bit integers in 32 bits"
    op_types: ClassVar[Sequence[str]] = ("ReduceMax", "ReduceMin")

    def matches(self, node: ir.Node) -> bool:
        """Whether integers have 8 bits."""
        value = node.inputs[0]
        return value is not None and value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Over all axes, or over the given ones, constant or not."""
        x, dtype = typed(node.inputs[0])
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        widened = build.cast(x, ir.DataType.INT32)
        return [build.cast(build(node.op_type, widened, *node.inputs[1:], **attributes), dtype)]


class StableLogSumExp(Rewrite):
    """``ReduceLogSumExp`` less the greatest number, so that no exponential overflows or vanishes."""

    name: ClassVar[str] = "log-sum-exp without overflow"
    op_types: ClassVar[Sequence[str]] = ("ReduceLogSumExp",)

    def matches(self, node: ir.Node) -> bool:
        """Whether numbers are floating-point, and there are any."""
        value = node.inputs[0]
        return value is not None and value.dtype in _FLOATS and 0 not in (value.shape or ())

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the sum; an infinite greatest number is not subtracted."""
        x, dtype = typed(node.inputs[0])
        axes = _axes(node, x)
        if axes is None:
            return [build("Identity", x)]
        zero, far = np.zeros((), dtype.numpy()), np.asarray(np.inf, dtype.numpy())
        greatest = axes.reduced(build, "ReduceMax", x)
        finite = build("Where", build("Less", build("Abs", greatest), far), greatest, zero)
        total = axes.reduced(build, "ReduceSum", build("Exp", build("Sub", x, finite)))
        result = build("Add", build("Log", total), finite)
        return [result if node.attributes.get_int("keepdims", 1) == 1 else axes.dropped(build, result)]


class SummedReduction(Rewrite):
    """``ReduceL1`` and ``ReduceL2`` as sums of absolute values and of squares, ``ReduceLogSum`` as the log of a sum."""

    name: ClassVar[str] = "reduction by a sum"
    op_types: ClassVar[Sequence[str]] = ("ReduceL1", "ReduceL2", "ReduceLogSum")

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the sum over the axes; over no axes, only what is done to each element."""
        x = node.inputs[0]
        assert x is not None
        axes = _axes(node, x)
        is_squared = node.op_type == "ReduceL2" and axes is not None
        given = build("Mul", x, x) if is_squared else x if node.op_type == "ReduceLogSum" else build("Abs", x)
        if axes is not None:
            given = axes.reduced(build, "ReduceSum", given, keepdims=node.attributes.get_int("keepdims", 1) == 1)
        if node.op_type == "ReduceLogSum":
            return [build("Log", given)]
        return [build("Sqrt", given) if is_squared else given]


@dataclass(frozen=True)
class _Axes:
    """The axes that are reduced."""

    places: Sequence[int] | ir.Value
    """Their indices, or the computed value that holds them."""
    reduces_none_if_empty: bool = False
    """Whether nothing is reduced if the computed value turns out to hold no index."""

    def reduced(self, build: NodeBuilder, op_type: str, x: ir.Value, *, keepdims: bool = True) -> ir.Value:
        """Builds a reduction over these axes."""
        if not isinstance(self.places, ir.Value):
            return build.reduce(op_type, x, self.places, keepdims=keepdims)
        noop = int(self.reduces_none_if_empty)
        return build(op_type, x, self.places, keepdims=int(keepdims), noop_with_empty_axes=noop)

    def dropped(self, build: NodeBuilder, x: ir.Value) -> ir.Value:
        """Removes these axes, which have the size 1 where they are reduced."""
        if isinstance(self.places, ir.Value):  # a Squeeze without indices would remove other axes of the size 1, too
            return self.reduced(build, "ReduceMax", x, keepdims=False)
        return build.squeeze(x, self.places)


def _axes(node: ir.Node, x: ir.Value) -> _Axes | None:
    """Returns the axes of a reduction, or None if there are none and nothing is reduced.

    Raises:
        InapplicableError: All of an unknown number of axes are meant.
    """
    computed, given = input_at(node, 1), constant_input(node, 1)
    reduces_none = node.attributes.get_int("noop_with_empty_axes", 0) == 1
    if computed is not None and given is None:
        return _Axes(computed, reduces_none)
    places = list(node.attributes.get_ints("axes", ())) if given is None else [int(axis) for axis in given]
    if not places and reduces_none:
        return None
    return _Axes(places or list(range(rank_of(x))))
