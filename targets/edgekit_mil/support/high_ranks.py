"""Tensors of more dimensions than Core ML has: they are held and computed with dimensions merged.

Most such tensors live between a Reshape and the next one, around a Transpose that moves blocks of dimensions as a
whole. Neighbouring dimensions that a computation treats alike are one dimension to it. Open sizes are symbols.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, Unsupported, Value, computed, constant, shape_in_words
from edgekit_mil.support import runtime_shapes
from edgekit_mil.support.movement import empty, reshaped
from edgekit_mil.support.runtime_shapes import is_number


def of_shape(x: Value, shape: Sequence[Any], *tellers: Value) -> Value:
    """The elements in another shape, of any rank on either side.

    Args:
        x: The tensor.
        shape: Numbers and symbols.
        tellers: Tensors, or vectors of sizes, from which the program takes the open sizes; not needed if only one is
            open.

    Raises:
        Unsupported: Too many sizes are open, or no teller has one of them.
    """
    if 0 in shape and all(map(is_number, shape)):
        return empty(x.dtype, [int(size) for size in shape])
    if len(shape) > HIGHEST_RANK:
        in_few = of_shape(x, held_shape(shape), *tellers)
        return replace(in_few, wide_shape=tuple(int(size) if is_number(size) else size for size in shape))
    x = held(x)
    is_open = [not is_number(size) for size in shape]
    if sum(is_open) <= 1:
        return computed(
            reshaped(x, [-1 if open_ else size for open_, size in zip(is_open, shape, strict=True)]), x.dtype
        )
    sizes = runtime_shapes.vector([size_in_program(size, tellers) for size in shape])
    return computed(runtime_shapes.of_sizes(mb.reshape(x=x.var, shape=sizes), shape), x.dtype)


def held_shape(shape: Sequence[Any]) -> list[Any]:
    """Returns the shape in which a tensor of high rank is held: fixed neighbors are merged, open dimensions separate.

    If more than five dimensions remain, fixed ones are merged with open neighbors, whose sizes are then quotients.

    Raises:
        Unsupported: More than five dimensions are open.
    """
    merged: list[Any] = []
    for size in shape:
        if merged and is_number(size) and is_number(merged[-1]):
            merged[-1] *= int(size)
        else:
            merged.append(size)
    while len(merged) > HIGHEST_RANK:
        place = next((place for place in range(len(merged)) if is_number(merged[place]) and merged[place]), None)
        if place is None:
            raise Unsupported(f"{len(merged)} open sizes, Core ML has {HIGHEST_RANK} dimensions", FIX_SIZES)
        first = max(place - 1, 0)
        merged[first : first + 2] = [merged[first] * merged[first + 1]]
    return merged


def held(x: Value) -> Value:
    """Returns the tensor as it is held, in at most as many dimensions as Core ML has."""
    if x.rank <= HIGHEST_RANK:
        return x
    if x.constant is not None:
        return constant(x.constant.reshape(-1), x.dtype)
    return replace(x, wide_shape=None)


def size_in_program(size: Any, tellers: Sequence[Value]) -> Any:
    """A size: a number, or a vector of one element that the program computes.

    Args:
        size: A number, a symbol, or a product.
        tellers: Tensors with a dimension of this size, or vectors of sizes.

    Raises:
        Unsupported: No teller has the size.
    """
    if is_number(size):
        return int(size)
    for teller in map(held, tellers):
        elements = [] if teller.elements is None or teller.elements.ndim != 1 else list(teller.elements)
        if size in elements:
            place = elements.index(size)
            return mb.slice_by_index(x=teller.var, begin=[place], end=[place + 1])
        if size in teller.shape:
            return runtime_shapes.size_of(teller.var, teller.shape.index(size))
        for axis, product in enumerate(teller.shape):
            times = None if is_number(product) else product / size
            if times is not None and times.is_Integer:
                return mb.floor_div(x=runtime_shapes.size_of(teller.var, axis), y=np.array([int(times)], np.int32))
    if not size.is_Mul:
        raise Unsupported(
            "needs fixed sizes: several sizes are open, and none of them can be computed from the others", FIX_SIZES
        )
    factors = [size_in_program(int(factor) if factor.is_Integer else factor, tellers) for factor in size.args]
    return functools.reduce(lambda one, other: mb.mul(x=one, y=other), factors)


def sizes_of(x: Value) -> Var:
    """All sizes as a vector that the program computes."""
    if x.rank <= HIGHEST_RANK:
        return mb.shape(x=x.var)
    return runtime_shapes.vector([size_in_program(size, [x]) for size in x.shape])


def transposed(x: Value, order: Sequence[int]) -> Value:
    """Returns the tensor with dimensions in another order; those that stay adjacent are moved as one."""
    shape = x.shape
    kept = [axis for axis in order if shape[axis] != 1]
    # An axis continues a block if it follows the same axis in the input as in the output.
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
        return of_shape(x, target, x)
    in_order = sorted(blocks)
    sizes = [math.prod(shape[axis] for axis in block) for block in in_order]
    places = [in_order.index(block) for block in blocks]
    if len(blocks) > HIGHEST_RANK:
        return of_shape(moved_in_steps(x, sizes, places), target, x)
    moved = mb.transpose(x=of_shape(x, sizes, x).var, perm=places)
    return of_shape(computed(moved, x.dtype), target, x)


def moved_in_steps(x: Value, sizes: Sequence[Any], places: Sequence[int]) -> Value:
    """Moves blocks of dimensions to their places in the output, one block at a time.

    Moving one block swaps it with the blocks between its place and its new place: four dimensions are enough.
    """
    moved = x
    current = list(range(len(sizes)))
    for position, block in enumerate(places):
        found = current.index(block)
        if found == position:
            continue
        parts = [current[:position], current[position:found], [block], current[found + 1 :]]
        apart = of_shape(moved, [math.prod(sizes[place] for place in part) for part in parts], x)
        moved = computed(mb.transpose(x=apart.var, perm=[0, 2, 1, 3]), x.dtype)
        current = [*parts[0], block, *parts[1], *parts[3]]
    return moved


def around(x: Value, axis: int) -> Value:
    """Reshapes a tensor to rank 3: the dimensions before an axis, the axis, and the dimensions after it."""
    shape = x.shape
    return of_shape(x, [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])], x)


def along_axis(x: Value, axis: int, compute: Callable[[Value, int], Sequence[Value]]) -> list[Value]:
    """Returns the results of a computation along one axis that treats each position of the other axes separately.

    Args:
        x: The tensor, of any rank.
        axis: Counted from the front.
        compute: Takes a tensor and the axis. Its results have the tensor's shape, except that the axis may have any
            size or be left out. A tensor of more dimensions than Core ML has is passed with rank 3.
    """
    if x.rank <= HIGHEST_RANK:
        return list(compute(x, axis))
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    results = compute(around(x, axis), 1)
    return [of_shape(each, [*before, *each.shape[1:-1], *behind], x) for each in results]


def one_axis_at_a_time(x: Value, axes: Sequence[int], compute: Callable[[Value, int, int], Value]) -> Value:
    """Returns the result of a computation along several axes, one after the other.

    Args:
        x: The tensor, of any rank.
        axes: Counted from the front.
        compute: Takes a tensor, the index of the axis in this tensor, and the axis as in ``axes``; its result has the
            tensor's rank.
    """

    def along(axis: int) -> Callable[[Value, int], Sequence[Value]]:
        return lambda low, place: [compute(low, place, axis)]

    for axis in axes:
        (x,) = along_axis(x, axis, along(axis))
    return x


def product_merged(a: Value, b: Value) -> tuple[Value, Value, tuple[Any, ...]]:
    """Returns the operands of a matrix product in the fewest dimensions that broadcasting them needs.

    Returns:
        Both operands, and the shape of the product.

    Raises:
        Unsupported: More than three batch dimensions remain, or open sizes may differ.
    """
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    left = of_shape(a, [1, *a.shape], a) if a.rank == 1 else a
    right = of_shape(b, [*b.shape, 1], b) if b.rank == 1 else b
    if all(size == 1 for size in right.shape[:-2]):
        matrix = right if right.rank == 2 else of_shape(right, right.shape[-2:], right)
        full = (*(1,) * (right.rank - left.rank), *left.shape[:-2])
        return of_shape(left, [math.prod(left.shape[:-1]), left.shape[-1]], left), matrix, (*full, *rows, *columns)
    blocks, full = merged_blocks([left.shape[:-2], right.shape[:-2]])
    if len(blocks) > HIGHEST_RANK - 2:
        raise Unsupported(f"broadcasts {len(blocks)} dimensions of matrices, Core ML has {HIGHEST_RANK - 2} at most")
    both = []
    for value in (left, right):
        shape = (1,) * (len(full) - value.rank + 2) + value.shape[:-2]
        merged = [math.prod(shape[axis] for axis in block) for block in blocks]
        both.append(of_shape(value, [*merged, *value.shape[-2:]], value))
    return both[0], both[1], (*full, *rows, *columns)


def broadcast_merged(inputs: Sequence[Value | None]) -> tuple[list[Value | None], tuple[Any, ...]]:
    """Returns the operands of an elementwise computation in the fewest dimensions that broadcasting them needs.

    Returns:
        The operands in their merged shapes, and the shape of the result.

    Raises:
        Unsupported: More than five dimensions remain, or open sizes may differ.
    """
    blocks, full = merged_blocks([value.shape for value in inputs if value is not None])
    shapes = [None if value is None else (1,) * (len(full) - value.rank) + value.shape for value in inputs]
    if len(blocks) > HIGHEST_RANK:
        raise Unsupported(f"broadcasts {len(blocks)} dimensions apart, Core ML has {HIGHEST_RANK} at most")
    merged: list[Value | None] = [
        value
        if value is None or shape is None
        else of_shape(value, [math.prod(shape[axis] for axis in block) for block in blocks], value)
        for value, shape in zip(inputs, shapes, strict=True)
    ]
    return merged, full


def merged_blocks(shapes: Sequence[Sequence[Any]]) -> tuple[list[list[int]], tuple[Any, ...]]:
    """Returns blocks of dimensions that broadcasting treats alike, without those of size 1, and the broadcast shape.

    Raises:
        Unsupported: Open sizes may differ.
    """
    full = broadcast_shape(shapes)
    spread = [(1,) * (len(full) - len(shape)) + tuple(shape) for shape in shapes]
    blocks: list[list[int]] = []
    patterns: list[list[bool]] = []
    for axis in (axis for axis in range(len(full)) if full[axis] != 1):
        pattern = [shape[axis] == 1 for shape in spread]
        if patterns and patterns[-1] == pattern:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
            patterns.append(pattern)
    return blocks, full


def broadcast_shape(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The shape that tensors of these shapes broadcast to.

    Raises:
        Unsupported: An open size, which may be 1, meets another size that is not 1.
    """
    if all(is_number(size) for shape in shapes for size in shape):
        return np.broadcast_shapes(*(tuple(int(size) for size in shape) for shape in shapes))
    rank = max(map(len, shapes))
    full: list[Any] = []
    for sizes in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise Unsupported(f"needs fixed sizes, found {', '.join(map(shape_in_words, shapes))}", FIX_SIZES)
        full.append(others.pop() if others else 1)
    return tuple(full)
