"""Tensors of more dimensions than Core ML has: they are kept flat, and computed with dimensions merged.

Most such tensors live between a Reshape and the next one, around a Transpose that moves blocks of dimensions as a
whole. Neighbouring dimensions that a computation treats alike are one dimension to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value, computed, constant
from edgekit_mil.support.movement import reshaped


def of_shape(x: Value, shape: Sequence[int]) -> Value:
    """The elements in another shape, of any rank on either side."""
    if len(shape) > HIGHEST_RANK:
        flat = flattened(x)
        return replace(computed(flat, x.dtype), wide_shape=tuple(int(size) for size in shape))
    if x.rank > HIGHEST_RANK:
        flat_value = computed(flattened(x), x.dtype)
        return computed(reshaped(flat_value, shape), x.dtype)
    return computed(reshaped(x, shape), x.dtype)


def flattened(x: Value) -> Var:
    """All elements in a row."""
    if x.constant is not None:
        return constant(x.constant.reshape(-1), x.dtype).var
    if x.wide_shape is not None:
        return replace(x, wide_shape=None).var
    return reshaped(x, [math.prod(x.static_shape)])


def transposed(x: Value, order: Sequence[int]) -> Value:
    """Dimensions in another order: those that stay side by side move as one, those of size 1 not at all."""
    shape = x.static_shape
    kept = [axis for axis in order if shape[axis] != 1]
    # An axis goes on with its block where the axis before it in the input is the one before it in the output.
    sized = sorted(kept)
    before = dict(zip(sized[1:], sized, strict=False))
    blocks: list[list[int]] = []
    for axis in kept:
        if blocks and before.get(axis) == blocks[-1][-1]:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    target = [shape[axis] for axis in order]
    if len(blocks) <= 1:
        return of_shape(x, target)
    in_order = sorted(blocks)
    sizes = [math.prod(shape[axis] for axis in block) for block in in_order]
    places = [in_order.index(block) for block in blocks]
    if len(blocks) > HIGHEST_RANK:
        return of_shape(computed(moved_in_steps(x, sizes, places), x.dtype), target)
    moved = mb.transpose(x=of_shape(x, sizes).var, perm=places)
    return of_shape(computed(moved, x.dtype), target)


def moved_in_steps(x: Value, sizes: Sequence[int], places: Sequence[int]) -> Var:
    """All elements in a row after blocks of dimensions were moved, one at a time, to where they belong.

    Moving one block swaps it with those between its place and where it belongs: four dimensions are enough.
    """
    var = flattened(x)
    current = list(range(len(sizes)))
    for position, block in enumerate(places):
        found = current.index(block)
        if found == position:
            continue
        parts = [current[:position], current[position:found], [block], current[found + 1 :]]
        apart = mb.reshape(x=var, shape=[math.prod(sizes[place] for place in part) for part in parts])
        var = mb.reshape(x=mb.transpose(x=apart, perm=[0, 2, 1, 3]), shape=[math.prod(sizes)])
        current = [*parts[0], block, *parts[1], *parts[3]]
    return var


def around(x: Value, axis: int) -> Value:
    """A tensor of rank 3: what is before an axis, the axis, and what is after it."""
    shape = x.static_shape
    return of_shape(x, [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])])


def broadcast_merged(inputs: Sequence[Value | None]) -> tuple[list[Value | None], tuple[int, ...]]:
    """Operands of an elementwise computation with as few dimensions as broadcasting them takes.

    Returns:
        The operands in their merged shapes, and the shape of the result.

    Raises:
        Unsupported: More than five dimensions remain.
    """
    full = np.broadcast_shapes(*(value.static_shape for value in inputs if value is not None))
    rank = len(full)
    shapes = [None if value is None else (1,) * (rank - value.rank) + value.static_shape for value in inputs]

    def pattern(axis: int) -> tuple[bool, ...]:
        return tuple(shape is not None and shape[axis] == 1 for shape in shapes)

    blocks: list[list[int]] = []
    for axis in (axis for axis in range(rank) if full[axis] != 1):
        if blocks and pattern(blocks[-1][-1]) == pattern(axis):
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    if len(blocks) > HIGHEST_RANK:
        raise Unsupported(f"broadcasts {len(blocks)} dimensions apart, Core ML has {HIGHEST_RANK} at most")
    merged: list[Value | None] = [
        value
        if value is None or shape is None
        else of_shape(value, [math.prod(shape[axis] for axis in block) for block in blocks])
        for value, shape in zip(inputs, shapes, strict=True)
    ]
    return merged, full
