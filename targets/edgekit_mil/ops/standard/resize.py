"""Resize and Upsample: as Core ML's own resizing if that computes the same, as gathers and products otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit.graph import resize_tables
from edgekit.graph.resize_tables import Axis, Table, UnknownModeError, output_sizes, scaled
from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FIX_SIZES, Unsupported, Value, constant
from edgekit_mil.ops.standard.matrices import product_along
from edgekit_mil.support.bilinear import bilinear_table
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import is_number
from edgekit_mil.support.symbolic_sizes import known_elements
from edgekit_mil.support.upsampling_filters import filter_of, upsampled

BILINEAR_MODES = ("UNALIGN_CORNERS", "DEFAULT", "STRICT_ALIGN_CORNERS")
UPSAMPLING_MODES = {"UNALIGN_CORNERS": False, "STRICT_ALIGN_CORNERS": True}
"""Sampling modes that ``upsample_bilinear`` has, too, and its ``align_corners`` for each."""
UPSAMPLED_RANK = 3
"""``upsample_nearest_neighbor`` and ``upsample_bilinear`` take tensors of this rank or a higher one."""
TRIAL_SIZES = (1, 2, 3, 5, 8, 13)
"""Sizes at which upsampling by a whole factor is compared with ONNX's formulas; both treat all sizes alike."""
PICTURES = 4
"""The rank of pictures, which a filter upsamples."""
CUBIC = -0.75
"""The default coefficient of cubic interpolation."""
Weights = Callable[[Axis, Any], Table]
"""Returns the weights of old elements, for an axis and the coordinates of its new elements."""
MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


@lowering("Upsample", versions=[7], note="scales constant")
def upsample_by_attribute(ctx: Context, x: Value, *, scales: Sequence[float], mode: str = "nearest") -> Var:
    """Resizes by factors from an attribute."""
    return asymmetric(x, scales, mode)


@lowering("Upsample", versions=[9, 10], note="scales constant")
@lowering("Resize", versions=[10], note="scales constant")
def resize_by_scales(ctx: Context, x: Value, scales: Value, *, mode: str = "nearest") -> Var:
    """Resizes by factors from an input, in versions without a choice of coordinates."""
    return asymmetric(x, [float(scale) for scale in scales.require_constant("scales")], mode)


def _with_unknown_modes_refused(function: Callable[..., Var]) -> Callable[..., Var]:
    """Wraps a function so that a mode that ONNX does not have becomes a gap."""

    @functools.wraps(function)
    def refusing(*arguments: Any, **attributes: Any) -> Var:
        try:
            return function(*arguments, **attributes)
        except UnknownModeError as error:
            raise Unsupported(str(error)) from error

    return refusing


@lowering("Resize", versions=[11, 13, 18, 19], note="sizes, scales and roi constant")
@_with_unknown_modes_refused
def resize(
    ctx: Context,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = CUBIC,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Var:
    """Resize along some axes to sizes or by factors."""
    chosen = [normalized_axis(axis, x.rank) for axis in (axes if axes is not None else range(x.rank))]
    weights = weights_by(mode, antialias=bool(antialias), exclude_outside=bool(exclude_outside), a=cubic_coeff_a)
    if not x.is_static:
        multiples = _multiples(x, chosen, scales, sizes, keep_aspect_ratio_policy)
        if any(factor > 1 for factor in multiples.values()):
            return multiplied(x, multiples, mode, coordinate_transformation_mode, nearest_mode, weights)
        kept = [place for place, axis in enumerate(chosen) if axis not in multiples]
        scales, sizes = (_entries(values, kept) for values in (scales, sizes))
        roi = _entries(roi, [*kept, *(place + len(chosen) for place in kept)])
        chosen = [chosen[place] for place in kept]
    lengths = list(x.static_sizes(chosen))
    outs, factors = _targets(lengths, scales, sizes, keep_aspect_ratio_policy)
    if coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None:
            raise Unsupported("tf_crop_and_resize needs a roi")
        region = [float(bound) for bound in roi.require_constant("roi")]
    else:
        region = [0.0] * len(chosen) + [1.0] * len(chosen)
    bounds = zip(region[: len(chosen)], region[len(chosen) :], strict=True)
    plan = {
        axis: Axis(length, out, factor, bound)
        for axis, length, out, factor, bound in zip(chosen, lengths, outs, factors, bounds, strict=True)
    }
    grids = {axis: one.coordinates(coordinate_transformation_mode) for axis, one in plan.items()}
    kind = MODES.get(mode)
    if kind == "nearest":
        result = repeat({n: resize_tables.nearest_indices(one, grids[n], nearest_mode) for n, one in plan.items()}, x)
    elif weights is not None:
        result = interpolate({n: weights(one, grids[n]) for n, one in plan.items()}, x)
    else:
        raise Unsupported(f"unknown mode {mode!r}")
    if coordinate_transformation_mode != "tf_crop_and_resize":
        return result
    return _extrapolated(result, plan, grids, extrapolation_value)


def weights_by(mode: str, *, antialias: bool, exclude_outside: bool, a: float) -> Weights | None:
    """Returns the function for the weights of old elements; None for modes without weights, such as nearest."""
    kind = MODES.get(mode)
    options = {"antialias": antialias, "exclude_outside": exclude_outside}
    if kind == "linear":
        return lambda one, grid: resize_tables.linear_table(one, grid, **options)
    if kind == "cubic":
        return lambda one, grid: resize_tables.cubic_table(one, grid, a=a, **options)
    return None


def asymmetric(x: Value, scales: Sequence[float], mode: str) -> Var:
    """Resize with output element ``i`` at ``i / scale``.

    The nearest element is this place rounded down, or rounded up along an axis that becomes shorter. The standard does
    not say so; its example of operator set 10 (two of four elements by 0.6: the first and the third) and ONNX Runtime
    do.
    """
    kind = MODES.get(mode)
    weights = weights_by(mode, antialias=False, exclude_outside=False, a=CUBIC) if kind != "cubic" else None
    if any(not is_number(size) and scale != 1 for size, scale in zip(x.shape, scales, strict=True)):
        if any(scale < 1 or scale != int(scale) for scale in scales):
            raise Unsupported("resizes open sizes by other than whole factors", FIX_SIZES)
        return multiplied(x, dict(enumerate(map(int, scales))), mode, "asymmetric", "floor", weights)
    plan = {
        axis: Axis(size, scaled(size, scale), scale)
        for axis, (size, scale) in enumerate(zip(x.shape, scales, strict=True))
        if is_number(size)
    }
    grids = {axis: one.coordinates("asymmetric") for axis, one in plan.items()}
    if kind == "nearest":
        roundings = {axis: "ceil" if one.scale < 1 else "floor" for axis, one in plan.items()}
        return repeat({n: resize_tables.nearest_indices(one, grids[n], roundings[n]) for n, one in plan.items()}, x)
    if weights is not None:
        return interpolate({n: weights(one, grids[n]) for n, one in plan.items()}, x)
    raise Unsupported(f"unknown mode {mode!r}")


def multiplied(
    x: Value,
    factors: Mapping[int, int],
    mode: str,
    transformation: str,
    nearest_mode: str,
    weights: Weights | None,
) -> Var:
    """Resize a tensor of open sizes by whole factors: by Core ML's own upsampling or by a filter.

    The operation that is used computes the same as ONNX's formulas at every size.

    Args:
        x: The tensor.
        factors: By axis; axes that are left out keep their sizes.
        mode: ONNX's ``mode`` of interpolation.
        transformation: ``coordinate_transformation_mode``.
        nearest_mode: How coordinates are rounded.
        weights: The result of :func:`weights_by`.

    Raises:
        Unsupported: Neither of them computes the same, or other axes than the last two are resized.
    """
    height, width = x.rank - 2, x.rank - 1
    resized = {axis for axis, factor in factors.items() if factor != 1}
    if not x.is_float or x.rank < UPSAMPLED_RANK or resized - {height, width}:
        raise Unsupported("resizes open sizes of other than the last two dimensions of a float tensor", FIX_SIZES)
    both = [factors.get(axis, 1) for axis in (height, width)]
    trials = [Axis(size, size * factor, factor) for size in TRIAL_SIZES for factor in both]
    grids = [one.coordinates(transformation) for one in trials]
    kind = MODES.get(mode)
    if kind == "nearest":
        places = [resize_tables.nearest_indices(*trial, nearest_mode) for trial in zip(trials, grids, strict=True)]
        if all(_repetitions(table, one.size) == one.scale for one, table in zip(trials, places, strict=True)):
            return mb.upsample_nearest_neighbor(x=x.var, scale_factor_height=both[0], scale_factor_width=both[1])
    if kind == "linear" and weights is not None:
        for own, align_corners in UPSAMPLING_MODES.items():
            if all(
                np.allclose(
                    bilinear_table(one.size, one.out, own),
                    weights(one, grid),
                    rtol=0,
                    atol=1e-5,
                )
                for one, grid in zip(trials, grids, strict=True)
            ):
                return mb.upsample_bilinear(
                    x=x.var, scale_factor_height=both[0], scale_factor_width=both[1], align_corners=align_corners
                )
    if weights is not None and x.rank == PICTURES and both[0] == both[1] and is_number(x.shape[1]):

        def table(size: int) -> np.ndarray:
            one = Axis(size, size * both[0], both[0])
            return np.asarray(weights(one, one.coordinates(transformation)))

        found = filter_of(table, both[0], TRIAL_SIZES)
        if found is not None:
            return upsampled(x.var, found, found)
    raise Unsupported(f"resizes open sizes in mode {mode!r} with coordinates {transformation!r}", FIX_SIZES)


def _multiples(x: Value, axes: Sequence[int], scales: Value | None, sizes: Value | None, policy: str) -> dict[int, int]:
    """The whole number by which each open axis is multiplied; for every axis if one of the numbers is greater than 1.

    Raises:
        Unsupported: An open size is not multiplied by a known whole number.
    """
    wanted = known_elements(sizes) if sizes is not None and sizes.shape != (0,) else None
    if scales is not None and scales.shape != (0,):
        factors = dict(zip(axes, map(float, scales.require_constant("scales")), strict=True))
    elif wanted is None or policy != "stretch":
        raise Unsupported("resizes open sizes to sizes that only a run tells", FIX_SIZES)
    else:
        factors = {
            axis: 1.0 if size == x.shape[axis] else _ratio(size, x.shape[axis])
            for axis, size in zip(axes, wanted.tolist(), strict=True)
        }
    open_axes = {axis for axis in axes if not is_number(x.shape[axis])}
    concerned = axes if any(factors[axis] != 1 for axis in open_axes) else open_axes
    if any(factors[axis] != int(factors[axis]) or factors[axis] < 1 for axis in concerned):
        raise Unsupported("resizes open sizes by other than whole factors", FIX_SIZES)
    return {axis: int(factors[axis]) for axis in concerned}


def _ratio(size: Any, length: Any) -> float:
    """The factor by which an axis is multiplied.

    Raises:
        Unsupported: The factor depends on an open size.
    """
    ratio = size / length
    if not (is_number(size) and is_number(length)) and not ratio.is_number:
        raise Unsupported("resizes open sizes to sizes that only a run tells", FIX_SIZES)
    return float(ratio)


def _entries(values: Value | None, places: Sequence[int]) -> Value | None:
    """Selected entries of a vector of sizes, scales or bounds, if its numbers are known; else the vector itself."""
    known = None if values is None or values.shape == (0,) else known_elements(values)
    if values is None or known is None:
        return values
    return constant(np.array(known[list(places)].tolist(), values.dtype.numpy()), values.dtype)


def repeat(indices: Mapping[int, np.ndarray], x: Value) -> Var:
    """Take elements by index along axes."""
    result, sizes = x.var, dict(zip(indices, x.static_sizes(indices), strict=True))
    changed = {axis: table for axis, table in indices.items() if not np.array_equal(table, np.arange(sizes[axis]))}
    factors = {axis: _repetitions(table, sizes[axis]) for axis, table in changed.items()}
    height, width = x.rank - 2, x.rank - 1
    if x.is_float and x.rank >= 4 and all(factors.values()) and set(changed) <= {height, width}:
        return mb.upsample_nearest_neighbor(
            x=result, scale_factor_height=factors.get(height, 1), scale_factor_width=factors.get(width, 1)
        )
    for axis, table in changed.items():
        result = mb.gather(x=result, indices=table, axis=axis)
    return result


def interpolate(tables: Mapping[int, Table], x: Value) -> Var:
    """Weighted sums along axes."""
    if not x.is_float:
        raise Unsupported(f"interpolation of {x.dtype.name.lower()} leaves the rounding open", "cast to float first")
    changed = {axis: table for axis, table in tables.items() if not _is_identity(table)}
    if not changed:
        return mb.identity(x=x.var)
    height, width = x.rank - 2, x.rank - 1
    if x.rank >= 4 and set(changed) <= {height, width}:
        wanted = [tables.get(axis, np.eye(x.static_sizes([axis])[0])) for axis in (height, width)]
        for mode in BILINEAR_MODES:
            own = [bilinear_table(table.shape[1], table.shape[0], mode) for table in wanted]
            if all(np.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(own, wanted, strict=True)):
                return mb.resize_bilinear(
                    x=x.var,
                    target_size_height=wanted[0].shape[0],
                    target_size_width=wanted[1].shape[0],
                    sampling_mode=mode,
                )
    result = x.var
    for axis, table in changed.items():
        result = product_along(result, table.astype(np.float32), axis)
    return result


def _targets(
    lengths: Sequence[int], scales: Value | None, sizes: Value | None, policy: str
) -> tuple[list[int], list[float]]:
    """Output sizes and factors along the chosen axes."""
    wanted = sizes.ints("sizes") if sizes is not None and sizes.shape != (0,) else None
    factors = None if scales is None or wanted is not None else map(float, scales.require_constant("scales"))
    return output_sizes(lengths, wanted, None if factors is None else list(factors), policy)


def _extrapolated(result: Var, plan: Mapping[int, Axis], grids: Mapping[int, np.ndarray], value: float) -> Var:
    """The result with ``value`` where a coordinate lies outside the input."""
    inside = np.ones((1,) * result.rank, bool)
    for axis, one in plan.items():
        along = [-1 if other == axis else 1 for other in range(result.rank)]
        inside = inside & ((grids[axis] >= 0) & (grids[axis] <= one.size - 1)).reshape(along)
    if inside.all():
        return result
    mask = np.broadcast_to(inside, tuple(int(size) for size in result.shape))
    return mb.select(cond=mask, a=result, b=np.full(mask.shape, value, np.float32))


def _is_identity(table: Table) -> bool:
    return table.shape[0] == table.shape[1] and bool(np.allclose(table, np.eye(len(table)), rtol=0, atol=1e-6))


def _repetitions(indices: np.ndarray, size: int) -> int | None:
    """How often each element is repeated if indices repeat every element equally often; else None."""
    factor, rest = divmod(len(indices), size)
    return factor if rest == 0 and np.array_equal(indices, np.arange(len(indices)) // factor) else None
