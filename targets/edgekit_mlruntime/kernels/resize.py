"""Resizing of whole images."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from edgekit_mlruntime.kernels.grids import axis_points, interpolate
from edgekit_mlruntime.kernels.refusal import refusal
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("resize_bilinear")
def resize_bilinear(
    call: Call, x: Array, target_size_height: int = 1, target_size_width: int = 1, sampling_mode: str = "DEFAULT"
) -> Array:
    """Resize the last two axes with bilinear interpolation."""
    return _linear(x, {-2: target_size_height, -1: target_size_width}, sampling_mode)


@kernel("upsample_bilinear")
def upsample_bilinear(
    call: Call,
    x: Array,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Array:
    """Resize the last two axes to ``floor(size * factor)`` with bilinear interpolation.

    The grid follows from the sizes, not from the factors. ``half_pixel_centers`` (iOS 16) is by default the opposite of
    ``align_corners``; if both are True, the operation is refused.
    """
    if half_pixel_centers is None:
        half_pixel_centers = not align_corners
    if align_corners and half_pixel_centers:
        raise refusal(call, "align_corners together with half_pixel_centers")
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if half_pixel_centers else "DEFAULT"
    return _linear(x, _scaled(x, scale_factor_height, scale_factor_width), mode)


@kernel("upsample_nearest_neighbor", raw=True)
def upsample_nearest_neighbor(
    call: Call, x: Array, scale_factor_height: float = 1, scale_factor_width: float = 1
) -> Array:
    """Resize the last two axes to ``floor(size * factor)``; element i is the input's ``floor(i * size / new size)``."""
    for axis, count in _scaled(x, scale_factor_height, scale_factor_width).items():
        x = _pick(x, axis, np.arange(count) * x.shape[axis] // count)
    return x


@kernel("resize_nearest_neighbor", raw=True)
def resize_nearest_neighbor(call: Call, x: Array, target_size_height: int, target_size_width: int) -> Array:
    """Resize the last two axes; element i is the input's ``floor((i + 0.5) * size / new size)``.

    coremltools uses the operation with this meaning, for TensorFlow's nearest neighbors with half-pixel centers.
    """
    for axis, count in ((-2, target_size_height), (-1, target_size_width)):
        x = _pick(x, axis, _nearest_centres(x.shape[axis], count))
    return x


@kernel("resize", opset=17)
def resize(
    call: Call,
    x: Array,
    shape: Ints,
    resized_dims: int,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> Array:
    """Resize the last ``resized_dims`` axes to the last elements of ``shape``, where 0 keeps the size of the axis.

    With nearest neighbors, the grid ``DEFAULT`` picks the elements of ``resize_nearest_neighbor``; any other grid picks
    the elements nearest to its points, the one with the higher index if two are equally near.
    """
    wanted = {axis: shape[axis] or x.shape[axis] for axis in range(-resized_dims, 0)}
    if interpolation_mode == "LINEAR":
        if x.dtype != np.float32:
            raise refusal(call, "linear interpolation of integers, whose rounding is not documented")
        return _linear(x, wanted, sampling_mode)
    if interpolation_mode != "NEAREST_NEIGHBOR":
        raise ValueError(f"interpolation_mode {interpolation_mode!r}")
    for axis, count in wanted.items():
        size = x.shape[axis]
        if sampling_mode == "DEFAULT":
            picked = _nearest_centres(size, count)
        else:
            picked = np.minimum(np.floor(axis_points(sampling_mode, size, count) + 0.5).astype(np.intp), size - 1)
        x = _pick(x, axis, picked)
    return x


def _scaled(x: Array, factor_height: float, factor_width: float) -> dict[int, int]:
    """New sizes of the last two axes."""
    # In float32, the type of the factors: 10 * float32(0.7) is 7 in float32, but a little less in float64.
    return {
        axis: math.floor(np.float32(x.shape[axis]) * np.float32(factor))
        for axis, factor in ((-2, factor_height), (-1, factor_width))
    }


def _linear(x: Array, sizes: Mapping[int, int], mode: str) -> Array:
    """Interpolate along several axes, starting with the axes that shrink the most."""
    for axis in sorted(sizes, key=lambda axis: sizes[axis] / x.shape[axis]):
        if sizes[axis] != x.shape[axis]:
            x = interpolate(x, axis, axis_points(mode, x.shape[axis], sizes[axis]))
    return x


def _nearest_centres(size: int, count: int) -> Array:
    """Indices of the elements that contain the centers of ``count`` new elements."""
    centres: Array = (2 * np.arange(count) + 1) * size // (2 * count)
    return centres


def _pick(x: Array, axis: int, picked: Array) -> Array:
    """The elements with the indices ``picked`` along an axis."""
    size = x.shape[axis]
    repeats, rest = divmod(len(picked), size)
    if rest == 0 and np.array_equal(picked, np.arange(len(picked)) // repeats):
        # Most models repeat each element equally often, which is several times faster than indexing.
        return x if repeats == 1 else _repeat(x, axis, repeats)
    return x.take(picked, axis=axis)


def _repeat(x: Array, axis: int, repeats: int) -> Array:
    """Each element of an axis several times in a row."""
    axis %= x.ndim
    shape = list(x.shape)
    repeated = np.empty((*shape[: axis + 1], repeats, *shape[axis + 1 :]), x.dtype)
    repeated[...] = np.expand_dims(x, axis + 1)
    shape[axis] *= repeats
    return repeated.reshape(shape)
