"""Lists that a loop only adds to: states that change their shape, and that correspond to scan outputs.

TorchScript writes ``found = torch.cat([found, token])`` in this way, and ``found.append(token)`` as a sequence that
grows. Nothing in the body reads the list, so what each turn adds can be collected, and joined after the loop has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import CollectedList, TensorList, Value, computed
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import is_number, size_of, vector


@dataclass(frozen=True)
class GrowingList:
    """A state of a loop that the loop only adds to."""

    state: int
    """Index of the state among the loop's states."""
    axis: int | None
    """The axis along which the state grows; None for a sequence, which becomes longer."""


def growing_lists(body: ir.Graph, initial: Sequence[Value]) -> list[GrowingList]:
    """Returns the states that the body only appends something to.

    Args:
        body: The loop's body.
        initial: The states before the first turn.
    """
    found = []
    states = zip(list(body.inputs)[2:], list(body.outputs)[1:], initial, strict=False)
    for place, (entry, result, first) in enumerate(states):
        node = result.producer()
        is_sequence = isinstance(first, TensorList)
        if node is None or node.op_type != ("SequenceInsert" if is_sequence else "Concat") or node.domain:
            continue
        if len(node.inputs) != 2 or node.inputs[0] is not entry or node.inputs[1] is entry:
            continue
        if len(entry.uses()) > 1 or entry.is_graph_output() or result.uses():
            continue
        if isinstance(first, TensorList):
            if first.items is not None:
                found.append(GrowingList(place, None))
        elif first.rank:
            found.append(GrowingList(place, normalized_axis(node.attributes.get_int("axis"), first.rank)))
    return found


def without_lists(body: ir.Graph, lists: Sequence[GrowingList]) -> ir.Graph:
    """Returns the body without the lists; what it adds to them follows its other outputs, in the lists' order."""
    copy = body.clone(allow_outer_scope_values=True)
    places = [each.state for each in lists]
    nodes = [copy.outputs[1 + place].producer() for place in places]
    added = [node.inputs[1] for node in nodes if node is not None]
    for place in sorted(places, reverse=True):
        del copy.outputs[1 + place]
        del copy.inputs[2 + place]
    copy.remove([node for node in nodes if node is not None])
    for place, value in enumerate(added):  # the value may come from outside, so it cannot be an output itself
        node = ir.node("Identity", [value], name=f"{body.name}/added_{place}")
        node.outputs[0].name = f"{body.name}/added_{place}"
        copy.append(node)
        copy.outputs.append(node.outputs[0])
    return copy


def grown(first: Value, rows: Value, axis: int | None) -> Value:
    """The list after the loop.

    Args:
        first: The list before the first turn.
        rows: What each turn has added, along a new first axis.
        axis: The axis along which the list grows; None for a sequence.
    """
    if axis is None:
        return with_rows(first, rows)
    joined = joined_rows(rows, axis)
    if first.constant is not None and first.constant.size == 0:
        return computed(joined, first.dtype)
    return computed(mb.concat(values=[first.var, joined], axis=axis), first.dtype)


def with_rows(first: Value, rows: Value) -> CollectedList:
    """Returns a sequence with added tensors, which are given along a first axis."""
    if not isinstance(first, TensorList) or first.items is None:
        raise TypeError(f"{type(first).__name__} is not a sequence")
    if not isinstance(first, CollectedList) or first.rows is None:
        return CollectedList(rows.dtype, items=first.items, rows=rows)
    both = mb.concat(values=[first.rows.var, rows.var], axis=0)
    return CollectedList(rows.dtype, items=first.items, rows=computed(both, rows.dtype))


def joined_rows(rows: Value, axis: int) -> Var:
    """Joins tensors that are given along a first axis, along one of their own axes."""
    var = moved_rows(rows, axis)
    sizes = [size_of(rows.var, place) for place in range(1, rows.rank)]
    others = [size for place, size in enumerate(sizes) if place != axis]
    if all(map(is_number, others)):
        return mb.reshape(x=var, shape=[*sizes[:axis], -1, *sizes[axis + 1 :]])
    sizes[axis] = mb.mul(x=size_of(rows.var, 0), y=sizes[axis])
    return mb.reshape(x=var, shape=vector(sizes))


def moved_rows(rows: Value, axis: int) -> Var:
    """Moves the first axis, along which tensors are given, in front of their own axis ``axis``."""
    if not axis:
        return rows.var
    order = [*range(1, axis + 1), 0, *range(axis + 1, rows.rank)]
    return mb.transpose(x=rows.var, perm=order)
