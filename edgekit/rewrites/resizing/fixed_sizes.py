"""``Resize`` at fixed sizes: a gather, or a product with a table, along each axis.

Runtimes lack some of its modes, and some compute modes otherwise than the standard says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.graph.resize_tables import (
    Axis,
    Table,
    UnknownModeError,
    cubic_table,
    linear_table,
    nearest_indices,
    output_sizes,
)
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import rank_of, size_along, typed

MOST_CELLS = 1 << 22
"""The most numbers of a table; a larger one takes more room than most models."""
MOVES_WHAT_IT_KEEPS = "tf_crop_and_resize"
"""The coordinate transformation that may choose other elements along an axis whose factor is 1."""
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


class TabledResize(Rewrite):
    """A gather along each axis for the nearest element, a matrix product along each axis for weighted sums."""

    name: ClassVar[str] = "resize by tables"
    op_types: ClassVar[Sequence[str]] = ("Resize",)
    versions: ClassVar[range] = range(11, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant sizes, factors and region, and known sizes of the axes that change."""
        x = node.inputs[0]
        assert x is not None
        rank = rank_of(x)
        transformation = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
        try:
            plan = _plan(node, rank, transformation)
            grids = {axis: one.coordinates(transformation) for axis, one in plan.items()}
            result = _resized(node, build, x, plan, grids)
        except UnknownModeError as error:
            raise InapplicableError(str(error)) from error
        outside = _outside(plan, grids, rank)
        if transformation == "tf_crop_and_resize" and outside.any():
            _, dtype = typed(x)
            value = np.asarray(node.attributes.get_float("extrapolation_value", 0.0), dtype.numpy())
            result = build("Where", outside, value, result)
        return [result]


class TabledUpsample(Rewrite):
    """``Upsample`` of the nearest elements, as a gather along each axis."""

    name: ClassVar[str] = "nearest elements by tables"
    op_types: ClassVar[Sequence[str]] = ("Upsample",)
    versions: ClassVar[range] = range(9, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether the mode is ``nearest``."""
        return node.attributes.get_string("mode", "nearest") == "nearest"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant factors, and known sizes of the axes that change."""
        x, factors = node.inputs[0], _numbers(node, 1)
        if x is None or factors is None:
            raise InapplicableError("it has no factors")
        result = x
        for axis, factor in enumerate(factors):
            if factor == 1:
                continue
            size = size_along(x, axis)
            one = Axis(size, int(np.float32(factor) * np.float32(size)), factor)
            places = nearest_indices(one, one.coordinates("asymmetric"), "floor")
            result = build("Gather", result, places.astype(np.int64), axis=axis)
        return [result if result is not x else build("Identity", x)]


def _plan(node: ir.Node, rank: int, transformation: str) -> dict[int, Axis]:
    """Returns what becomes of each axis that may change."""
    x = node.inputs[0]
    axes = [axis % rank for axis in node.attributes.get_ints("axes", range(rank))]
    scales, sizes = _numbers(node, 2), _numbers(node, 3)
    region = _numbers(node, 1) if transformation == "tf_crop_and_resize" else None
    if transformation == "tf_crop_and_resize" and region is None:
        raise InapplicableError("tf_crop_and_resize needs a roi")
    region = region or [*[0.0] * len(axes), *[1.0] * len(axes)]
    places = list(range(len(axes)))
    if scales is not None and transformation != MOVES_WHAT_IT_KEEPS:
        places = [place for place in places if scales[place] != 1 or not _is_open(x, axes[place])]
    lengths = [size_along(x, axes[place]) for place in places]
    wanted = None if sizes is None else [int(sizes[place]) for place in places]
    given = None if scales is None else [scales[place] for place in places]
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    outs, factors = output_sizes(lengths, wanted, given, policy)
    return {
        axes[place]: Axis(length, out, factor, (region[place], region[place + len(axes)]))
        for place, length, out, factor in zip(places, lengths, outs, factors, strict=True)
    }


def _is_open(x: ir.Value | None, axis: int) -> bool:
    return x is None or x.shape is None or not isinstance(x.shape[axis], int)


def _numbers(node: ir.Node, place: int) -> list[float] | None:
    """Returns a constant input's numbers, or None for an input that is left out or empty.

    Raises:
        InapplicableError: The input is computed.
    """
    value = input_at(node, place)
    if value is None or (value.shape is not None and list(value.shape) == [0]):
        return None
    found = constant_input(node, place)
    if found is None:
        raise InapplicableError(f"its input {value.name!r} is computed")
    return [float(number) for number in found.ravel()] if found.size else None


def _resized(
    node: ir.Node, build: NodeBuilder, x: ir.Value, plan: Mapping[int, Axis], grids: Mapping[int, np.ndarray]
) -> ir.Value:
    mode = node.attributes.get_string("mode", "nearest")
    result = x
    for axis, one in plan.items():
        if mode == "nearest":
            rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
            places = nearest_indices(one, grids[axis], rounding)
            if not np.array_equal(places, np.arange(one.size)):
                result = build("Gather", result, places.astype(np.int64), axis=axis)
            continue
        table = _table(node, mode, one, grids[axis])
        if table.shape[0] != table.shape[1] or not np.allclose(table, np.eye(len(table)), rtol=0, atol=1e-6):
            result = _product_along(build, result, table, axis, x, rank_of(x))
    return result if result is not x else build("Identity", x)


def _table(node: ir.Node, mode: str, axis: Axis, grid: np.ndarray) -> Table:
    if axis.size * axis.out > MOST_CELLS:
        raise InapplicableError(f"a table of {axis.out} by {axis.size} weights is too large")
    is_smooth = node.attributes.get_int("antialias", 0) != 0
    excludes = node.attributes.get_int("exclude_outside", 0) != 0
    if mode == "linear":
        return linear_table(axis, grid, antialias=is_smooth, exclude_outside=excludes)
    if mode == "cubic":
        a = node.attributes.get_float("cubic_coeff_a", -0.75)
        return cubic_table(axis, grid, a=a, antialias=is_smooth, exclude_outside=excludes)
    raise InapplicableError(f"unknown mode {mode!r}")


def _product_along(build: NodeBuilder, x: ir.Value, table: Table, axis: int, typed: ir.Value, rank: int) -> ir.Value:
    """Returns the weighted sums along an axis, which is moved to the end for the product if necessary."""
    if typed.dtype not in _FLOATS:
        raise InapplicableError("sums of integers leave the rounding open")
    assert typed.dtype is not None
    weights = table.astype(typed.dtype.numpy())
    if axis == rank - 1:
        return build("MatMul", x, np.ascontiguousarray(weights.T))
    if axis == rank - 2:
        return build("MatMul", weights, x)
    order = [place for place in range(rank) if place != axis] + [axis]
    moved = build("MatMul", build("Transpose", x, perm=order), np.ascontiguousarray(weights.T))
    return build("Transpose", moved, perm=[int(place) for place in np.argsort(order)])


def _outside(plan: Mapping[int, Axis], grids: Mapping[int, np.ndarray], rank: int) -> np.ndarray:
    """Returns where coordinates lie outside the input: in its rank, of size 1 along axes that do not change."""
    outside = np.zeros((1,) * rank, bool)
    for axis, one in plan.items():
        along = [-1 if other == axis else 1 for other in range(rank)]
        outside = outside | ((grids[axis] < 0) | (grids[axis] > one.size - 1)).reshape(along)
    return outside
