"""Slices with a step longer than any axis, followed by a Squeeze: each takes one index.

Exporters of TensorFlow's ``x[:, i]`` (tf2onnx) write a computed index this way, as in a loop. A Gather does the same,
with sizes that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loops.number_ranges import Range, range_of
from edgekit.graph.loops.values import constant_of
from edgekit.model import node_name

LONGER_THAN_ANY_AXIS = 10**9
"""A step or an end of at least this lies beyond every axis: exporters write it for the end of an axis."""
ANY_OPSET = 13
"""The opset to build nodes for; the nodes built here have the same form in all opsets."""


def with_picks(body: ir.Graph) -> ir.Graph:
    """Returns a loop's body with a Gather in place of each such Slice, or the body itself if it has none."""
    if not any(True for _ in _picking(body)):
        return body
    copy = body.clone(allow_outer_scope_values=True)
    for pick in list(_picking(copy)):
        pick.replace()
    return copy


@dataclass(frozen=True)
class _Pick:
    """A Slice, its borders, and the axes along which it takes one index or a part."""

    node: ir.Node
    x: ir.Value
    starts: ir.Value
    ends: ir.Value
    first: Range
    axes: Sequence[int]
    picked: Sequence[int]
    """Positions, in ``axes``, of the axes of which one index is taken."""
    cut: Sequence[int]
    """Positions, in ``axes``, of the axes of which a part is taken."""

    def replace(self) -> None:
        """Puts other nodes in place of the Slice."""
        graph = self.node.graph
        if graph is None:
            raise ValueError(f"{node_name(self.node)!r} is in no graph")
        build = NodeBuilder(ANY_OPSET, f"{node_name(self.node)}/picks")
        result: ir.Value = self.x
        if self.cut:
            borders = [self._elements(build, bounds) for bounds in (self.starts, self.ends)]
            result = build("Slice", result, *borders, self._numbers([self.axes[place] for place in self.cut]))
        for place in self.picked:
            result = build("Gather", result, self._index(build, place), axis=self.axes[place])
        for value in build.initializers:
            graph.register_initializer(value)
        graph.insert_before(self.node, build.nodes)
        (output,) = self.node.outputs
        result.type = output.type
        output.replace_all_uses_with(result)
        graph.remove(self.node, safe=True)

    @property
    def _dtype(self) -> ir.DataType:
        return self.starts.dtype or ir.DataType.INT64

    def _elements(self, build: NodeBuilder, bounds: ir.Value) -> ir.Value | np.ndarray:
        """The borders of the axes of which a part is taken."""
        ranges = range_of(bounds)
        known = [None if ranges is None else ranges.known(place) for place in self.cut]
        numbers = [number for number in known if number is not None]
        if len(numbers) == len(known):
            return self._numbers(numbers)
        return build("Gather", bounds, np.array(self.cut), axis=0)

    def _numbers(self, numbers: Sequence[int]) -> np.ndarray:
        """Returns numbers in the integer type of the borders."""
        return np.array(numbers, self._dtype.numpy())

    def _index(self, build: NodeBuilder, place: int) -> ir.Value:
        """Returns the index that is taken, as a list of one, clamped to the first element as a Slice does it."""
        index = build("Gather", self.starts, np.array([place]), axis=0)
        index.dtype = self._dtype
        if self.first.low[place] >= 0:
            return index
        size = build("Gather", build("Shape", self.x), np.array([self.axes[place]]), axis=0)
        size.dtype = ir.DataType.INT64
        return build("Max", build.cast(index, ir.DataType.INT64), build("Neg", size))


def _picking(body: ir.Graph) -> Iterator[_Pick]:
    for node in ir.traversal.RecursiveGraphIterator(body):
        if node.op_type == "Slice" and not node.domain and (pick := _pick(node)) is not None:
            yield pick


def _pick(node: ir.Node) -> _Pick | None:
    """Returns what a Slice takes, or None if it is not known to take one index of an axis, or has other steps."""
    x, starts, ends, axes, steps = [*node.inputs, None, None, None, None, None][:5]
    if x is None or starts is None or ends is None or steps is None:
        return None
    strides, along = constant_of(steps), None if axes is None else constant_of(axes)
    if strides is None or (axes is not None and along is None):
        return None
    places, squeezed = range(len(strides)), _squeezed(node)
    numbers = list(places) if along is None else [int(axis) for axis in along]
    picked = [place for place in places if strides[place] >= LONGER_THAN_ANY_AXIS and numbers[place] in squeezed]
    if not picked or min(numbers) < 0 or any(strides[place] != 1 for place in places if place not in picked):
        return None
    first, last = range_of(starts), range_of(ends)
    if first is None or last is None or not len(places) == len(first.low) == len(last.low):
        return None
    whole = [place for place in places if first.known(place) == 0 and last.low[place] >= LONGER_THAN_ANY_AXIS]
    cut = [place for place in places if place not in picked and place not in whole]
    return _Pick(node, x, starts, ends, first, numbers, picked, cut)


def _squeezed(node: ir.Node) -> set[int]:
    """Returns the axes that every reader of a node's result squeezes: their size has to be 1."""
    (output,) = node.outputs
    if output.is_graph_output() or not output.uses():
        return set()
    return set.intersection(*(_axes(user) if user.graph is node.graph else set() for user, _ in output.uses()))


def _axes(node: ir.Node) -> set[int]:
    """Returns the axes that a Squeeze removes; none for other nodes."""
    if node.op_type != "Squeeze" or node.domain:
        return set()
    if len(node.inputs) > 1:
        axes = None if node.inputs[1] is None else constant_of(node.inputs[1])
        return set() if axes is None else {int(axis) for axis in axes.reshape(-1)}
    return set(node.attributes.get_ints("axes", []))
