"""Lists that a loop only adds to: states that change their shape, and that are what scan outputs are.

TorchScript writes ``found = torch.cat([found, token])`` so. Nothing in the body reads the list, so that what is added
in each turn can be collected, and joined when the loop has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import mb
from edgekit_mil.core.values import Value, computed
from edgekit_mil.support.movement import normalized_axis


@dataclass(frozen=True)
class GrowingList:
    """A state of a loop."""

    state: int
    """Its place among the states."""
    axis: int
    """The axis along which it grows."""


def growing_lists(body: ir.Graph, initial: Sequence[Value]) -> list[GrowingList]:
    """The states that the body does nothing with but to add something behind them.

    Args:
        body: The loop's body.
        initial: The states before the first turn.
    """
    found = []
    states = zip(list(body.inputs)[2:], list(body.outputs)[1:], initial, strict=False)
    for place, (entry, result, first) in enumerate(states):
        node = result.producer()
        if node is None or node.op_type != "Concat" or node.domain or len(node.inputs) != 2:
            continue
        is_added_to = node.inputs[0] is entry and node.inputs[1] is not entry
        is_read = len(entry.uses()) > 1 or entry.is_graph_output() or bool(result.uses())
        axis = node.attributes.get_int("axis")
        if is_added_to and not is_read and axis is not None and first.rank:
            found.append(GrowingList(place, normalized_axis(axis, first.rank)))
    return found


def without_lists(body: ir.Graph, lists: Sequence[GrowingList]) -> ir.Graph:
    """The body without the lists; what it adds to them comes behind its other outputs, in their order."""
    copy = body.clone(allow_outer_scope_values=True)
    places = [each.state for each in lists]
    nodes = [copy.outputs[1 + place].producer() for place in places]
    added = [node.inputs[1] for node in nodes if node is not None]
    for place in sorted(places, reverse=True):
        del copy.outputs[1 + place]
        del copy.inputs[2 + place]
    copy.remove([node for node in nodes if node is not None])
    for place, value in enumerate(added):  # it may be from outside, which is no graph's output
        node = ir.node("Identity", [value], name=f"{body.name}/added_{place}")
        node.outputs[0].name = f"{body.name}/added_{place}"
        copy.append(node)
        copy.outputs.append(node.outputs[0])
    return copy


def grown(first: Value, rows: Value, axis: int) -> Value:
    """The list after the loop.

    Args:
        first: What it was before the first turn.
        rows: What each turn has added, along a new first axis.
        axis: The axis along which it grows.
    """
    var = rows.var
    if axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, rows.rank)]
        var = mb.transpose(x=var, perm=order)
    sizes = [int(size) for size in rows.shape[1:]]
    joined = mb.reshape(x=var, shape=np.array([*sizes[:axis], -1, *sizes[axis + 1 :]], np.int32))
    if first.constant is not None and first.constant.size == 0:
        return computed(joined, first.dtype)
    return computed(mb.concat(values=[first.var, joined], axis=axis), first.dtype)
