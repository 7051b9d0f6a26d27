"""Sequences and optionals: lists of tensors whose length is known at every node, so that programs need no sequences.

If a loop adds to a list in a number of turns known only at run time, one tensor holds all that it adds, of one shape.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import CollectedList, TensorList, Unsupported, Value, computed, constant
from edgekit_mil.ops.standard.slicing import joined, parts
from edgekit_mil.support.growing_lists import joined_rows, moved_rows, with_rows
from edgekit_mil.support.iteration import scalar, stacked, through_bool, whole_numbers
from edgekit_mil.support.movement import normalized_axis

POSITION = "positions constant"


@lowering("SequenceEmpty", versions=[11])
def sequence_empty(ctx: Context, *, dtype: int = 1) -> Value:
    """An empty sequence."""
    return TensorList(ir.DataType(dtype), items=())


@lowering("SequenceConstruct", versions=[11])
def sequence_construct(ctx: Context, *xs: Value) -> Value:
    """A sequence of the given tensors."""
    return TensorList(xs[0].dtype, items=xs)


@lowering("SequenceInsert", versions=[11], note=POSITION)
def sequence_insert(ctx: Context, sequence: Value, x: Value, position: Value | None = None) -> Value:
    """Inserts a tensor, at the end unless there is a position."""
    if isinstance(sequence, CollectedList) and position is None:
        return with_rows(sequence, computed(mb.expand_dims(x=x.var, axes=[0]), x.dtype))
    items = list(items_of(sequence))
    place = len(items) if position is None else within(position, len(items) + 1, len(items))
    items.insert(place, x)
    return TensorList(x.dtype, items=tuple(items))


@lowering("SequenceErase", versions=[11], note=POSITION)
def sequence_erase(ctx: Context, sequence: Value, position: Value | None = None) -> Value:
    """Removes a tensor, the last one unless there is a position."""
    items = list(items_of(sequence))
    del items[-1 if position is None else within(position, len(items), len(items))]
    return TensorList(sequence.dtype, items=tuple(items))


@lowering("SequenceAt", versions=[11], note=POSITION)
def sequence_at(ctx: Context, sequence: Value, position: Value) -> Value:
    """The tensor at a position."""
    if isinstance(sequence, CollectedList):
        rows, place = all_rows(sequence), scalar(position)
        length = mb.squeeze(x=length_of(rows))
        from_front = mb.select(cond=mb.less(x=place, y=0), a=mb.add(x=place, y=length), b=place)
        return through_bool(mb.gather(x=whole_numbers(rows), indices=from_front, axis=0), rows.dtype)
    items = items_of(sequence)
    return items[within(position, len(items), len(items))]


@lowering("SequenceLength", versions=[11])
def sequence_length(ctx: Context, sequence: Value) -> Value:
    """The number of tensors in a sequence."""
    if isinstance(sequence, CollectedList):
        return computed(mb.squeeze(x=length_of(all_rows(sequence))), ir.DataType.INT64)
    return constant(np.array(len(items_of(sequence)), np.int64))


@lowering("SplitToSequence", versions=[11, 24], note="sizes constant")
def split_to_sequence(ctx: Context, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1) -> Value:
    """Splits along an axis: into given sizes, into equal parts with a smaller last one, or into parts of size 1."""
    axis = normalized_axis(axis, x.rank)
    size = x.static_shape[axis]
    if split is not None and split.rank:
        sizes = split.ints("the sizes")
    else:
        part = 1 if split is None else split.ints("the size")[0]
        sizes = [min(part, size - start) for start in range(0, size, part)]
    pieces = parts(x, axis, sizes)
    if split is None and not keepdims:
        pieces = [computed(mb.squeeze(x=piece.var, axes=[axis]), x.dtype) for piece in pieces]
    return TensorList(x.dtype, items=tuple(pieces))


@lowering("ConcatFromSequence", versions=[11])
def concat_from_sequence(ctx: Context, sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    """Joins all tensors of a sequence along an axis or along a new one."""
    if isinstance(sequence, CollectedList):
        rows = all_rows(sequence)
        place = normalized_axis(axis, rows.rank if new_axis else rows.rank - 1)
        return computed(moved_rows(rows, place) if new_axis else joined_rows(rows, place), rows.dtype)
    items = items_of(sequence)
    if not items:
        raise Unsupported("concatenates an empty sequence")
    if not new_axis:
        return joined(items, axis)
    rank = items[0].rank + 1
    return computed(mb.stack(values=[item.var for item in items], axis=normalized_axis(axis, rank)), sequence.dtype)


@lowering("Optional", versions=[15, 28], note="of tensors and sequences that are there")
def optional(ctx: Context, x: Value | None = None, *, type: object = None) -> Value:  # noqa: A002 - ONNX's name
    """The value itself, or an empty optional if there is none."""
    return TensorList(ir.DataType.UNDEFINED, items=None) if x is None else x


@lowering("OptionalHasElement", versions=[15, 18, 28])
def optional_has_element(ctx: Context, x: Value | None = None) -> Value:
    """Whether an optional has a value."""
    missing = x is None or (isinstance(x, TensorList) and x.items is None)
    return constant(np.array(not missing))


@lowering("OptionalGetElement", versions=[15, 18, 28])
def optional_get_element(ctx: Context, x: Value) -> Value:
    """The value of an optional."""
    if isinstance(x, TensorList) and x.items is None:
        raise Unsupported("the optional is empty")
    return x


def all_rows(sequence: CollectedList) -> Value:
    """The tensors of a sequence along a new first axis.

    Raises:
        Unsupported: The tensors have several shapes, so that no loop could collect them.
    """
    if sequence.rows is None:
        raise TypeError("a sequence that no loop has added to")
    if not sequence.items:
        return sequence.rows
    if any(item.shape != sequence.rows.shape[1:] for item in sequence.items):
        raise Unsupported("a loop adds tensors of another shape than those in the sequence", "export it unrolled")
    return computed(mb.concat(values=[stacked(sequence.items).var, sequence.rows.var], axis=0), sequence.dtype)


def length_of(rows: Value) -> Var:
    """The number of tensors along a first axis, as a vector of one element."""
    return mb.slice_by_index(x=mb.shape(x=rows.var), begin=[0], end=[1])


def items_of(sequence: Value) -> tuple[Value, ...]:
    """The tensors of a sequence.

    Raises:
        Unsupported: The sequence comes from outside the program, or its length is known only at run time.
    """
    if isinstance(sequence, CollectedList):
        raise Unsupported("a sequence whose length only a run tells")
    if not isinstance(sequence, TensorList) or sequence.items is None:
        raise Unsupported("a sequence that is not made within the model")
    return sequence.items


def within(position: Value, size: int, length: int) -> int:
    """A position counted from the front.

    Raises:
        Unsupported: The position lies outside the sequence, or is known only at run time.
    """
    place = position.ints("the position")[0]
    place = place + length if place < 0 else place
    if not 0 <= place < size:
        raise Unsupported(f"position {place} in a sequence of {length}")
    return place
