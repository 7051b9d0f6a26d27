"""Sampling of images at computed positions: grids, deformable convolution."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.support.movement import along_channels
from edgekit_mil.support.point_sampling import Neighbours, OutsideValues, cubic, linear, nearest, sampled
from edgekit_mil.support.runtime_shapes import counted, is_number, of_sizes, or_rest
from edgekit_mil.support.windows import Windows

KERNELS: dict[str, Callable[[Var, OutsideValues], Neighbours]] = {
    "nearest": nearest,
    "linear": linear,
    "bilinear": linear,
    "cubic": cubic,
    "bicubic": cubic,
}
RESAMPLE_PADDINGS = {"zeros": "constant", "border": "border"}
IMAGE_DIMENSIONS = 2


@lowering(
    "GridSample",
    versions=[16, 20, 22],
    note="1 to 3 spatial dimensions; a border not with cubic kernels",
)
def grid_sample(
    ctx: Context,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Var:
    """Samples x [n, C, *D] at the positions of a grid [n, *O, r] with coordinates from -1 to 1 along each axis."""
    if mode not in KERNELS:
        raise Unsupported(f"unknown mode {mode!r}")
    dimensions = x.rank - 2
    if not 1 <= dimensions <= 3:
        raise Unsupported(f"has {dimensions} spatial dimensions, there are lowerings of 1 to 3")
    if KERNELS[mode] is cubic and padding_mode == "border":
        raise Unsupported("cubic interpolation at a repeated border, which implementations take in different ways")
    if KERNELS[mode] is linear and dimensions == IMAGE_DIMENSIONS and padding_mode in RESAMPLE_PADDINGS:
        return mb.resample(
            x=x.var,
            coordinates=grid.var,
            sampling_mode="bilinear",
            padding_mode=RESAMPLE_PADDINGS[padding_mode],
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=bool(align_corners),
        )
    size, (channels, *spatial) = or_rest(x.shape[0]), x.static_sizes(range(1, x.rank))
    outer = grid.static_sizes(range(1, grid.rank - 1))
    rows = mb.reshape(x=grid.var, shape=[size, math.prod(outer), len(spatial)])
    coordinates = [rows] if len(spatial) == 1 else mb.split(x=rows, num_splits=len(spatial), axis=2)
    axes = []
    for length, coordinate in zip(spatial, reversed(coordinates), strict=True):
        places = denormalized(mb.squeeze(x=coordinate, axes=[2]), length, bool(align_corners))
        axes.append(KERNELS[mode](places, OutsideValues(length, padding_mode, bool(align_corners))))
    return mb.reshape(x=sampled(x.var, axes), shape=[size, channels, *outer])


@lowering("DeformConv", versions=[19, 22], note="2 spatial dimensions")
def deformable_convolution(
    ctx: Context,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Convolution that reads each window element at its position plus an offset, interpolated, times a mask."""
    size, (channels, *spatial) = or_rest(x.shape[0]), x.static_sizes(range(1, x.rank))
    if len(spatial) != IMAGE_DIMENSIONS:
        raise Unsupported(f"has {len(spatial)} spatial dimensions, there is a lowering of {IMAGE_DIMENSIONS}")
    windows = Windows.over(w.static_shape[2:], strides, dilations)
    padding = windows.padding(x, "NOTSET", pads)
    outer = offset.static_sizes(range(2, offset.rank))
    taps, samples, groups = math.prod(windows.sizes), math.prod(outer), size if size < 0 else size * offset_group
    offsets = mb.reshape(x=offset.var, shape=[groups, taps, IMAGE_DIMENSIONS, samples])
    axes = []
    for axis, moved in enumerate(mb.split(x=offsets, num_splits=IMAGE_DIMENSIONS, axis=2)):
        corners = np.arange(outer[axis]) * windows.strides[axis] - padding[axis][0]
        within = np.arange(windows.sizes[axis]) * windows.dilations[axis]
        shape = (*windows.sizes, *outer)
        along = [-1 if dim == axis else 1 for dim in range(IMAGE_DIMENSIONS)]
        regular = np.broadcast_to(within.reshape(*along, 1, 1) + corners.reshape(1, 1, *along), shape)
        places = mb.add(
            x=mb.reshape(x=moved, shape=[groups, taps * samples]),
            y=regular.reshape(1, taps * samples).astype(np.float32),
        )
        axes.append(linear(places, OutsideValues(spatial[axis], "zeros")))
    apart = mb.reshape(x=x.var, shape=[groups, channels // offset_group, *spatial])
    columns = sampled(apart, axes)
    if mask is not None:
        columns = mb.mul(x=columns, y=mb.reshape(x=mask.var, shape=[groups, 1, taps * samples]))
    outputs = w.static_shape[0]
    result = mb.conv(
        x=mb.reshape(x=columns, shape=[size, channels * taps, *outer]),
        weight=_as_pointwise(w, [outputs, channels // group * taps, 1, 1]),
        pad_type="valid",
        groups=group,
    )
    return result if b is None else mb.add(x=result, y=along_channels(b, len(result.shape)))


def denormalized(coordinates: Var, size: int, align_corners: bool) -> Var:
    """Coordinates as positions: -1 and 1 are the outermost elements' centers, or their outer edges."""
    half = np.float32((size - 1) / 2 if align_corners else size / 2)
    middle = np.float32((size - 1) / 2)
    return mb.add(x=mb.mul(x=coordinates, y=half), y=middle)


def _as_pointwise(w: Value, shape: Sequence[int]) -> Var:
    """Reshapes weights so that the window's elements are channels."""
    if w.constant is not None:
        return mb.const(val=w.operand.reshape(shape))
    return mb.reshape(x=w.var, shape=list(shape))


@lowering("AffineGrid", versions=[20])
def affine_grid(ctx: Context, theta: Value, size: Value, *, align_corners: int = 0) -> Var:
    """The positions to which affine maps theta [N, d, d + 1] move the elements of images of d dimensions: [N, *D, d].

    ONNX also defines this operator by others, but in a way that does not work for a batch of 1.
    """
    if not size.is_constant:
        return _grid_of_open_size(theta, size, aligned=bool(align_corners))
    batch, _, *sizes = size.ints("the size")
    if align_corners and 1 in sizes:
        raise Unsupported("aligns the corners of an image of one element")
    along = [_centres(count, aligned=bool(align_corners)) for count in sizes]
    # Coordinates are listed from the last dimension to the first.
    places = np.stack([*np.meshgrid(*along, indexing="ij")[::-1], np.ones(sizes)], axis=-1)
    base = places.reshape(1, -1, len(sizes) + 1).astype(np.float32)
    moved = mb.matmul(x=np.repeat(base, batch, axis=0), y=theta.var, transpose_y=True)
    return mb.reshape(x=moved, shape=[batch, *sizes, len(sizes)])


def _grid_of_open_size(theta: Value, size: Value, *, aligned: bool) -> Var:
    """The positions of an image whose sizes only a run tells: the columns of the maps times the coordinates, summed."""
    dims = size.static_shape[0] - 2
    columns = mb.split(x=theta.var, num_splits=dims + 1, axis=2)
    batch = theta.shape[0] if is_number(theta.shape[0]) else -1

    def along(column: Var, dim: int | None) -> Var:
        shape = [batch, *[1] * dims, dims]
        spread = mb.reshape(x=column, shape=shape)
        if dim is None:
            return spread
        count = mb.slice_by_index(x=size.var, begin=[dim + 2], end=[dim + 3])
        # Halves of steps from the upper end. As in ONNX Runtime, a single element with aligned corners is at 1.
        from_end = mb.sub(x=mb.sub(x=count, y=np.int32(1)), y=counted(count))
        halves = mb.add(x=mb.mul(x=from_end, y=np.int32(2)), y=np.int32(0 if aligned else 1))
        number = mb.maximum(x=mb.sub(x=count, y=np.int32(1)), y=np.int32(1)) if aligned else count
        share = mb.real_div(x=mb.cast(x=halves, dtype="fp32"), y=mb.cast(x=number, dtype="fp32"))
        centres = mb.sub(x=np.float32(1), y=share)
        axis_shape = [-1 if place == dim + 1 else 1 for place in range(dims + 2)]
        return mb.mul(x=spread, y=mb.reshape(x=centres, shape=axis_shape))

    # Coordinates are listed from the last dimension to the first.
    terms = [along(column, dim) for column, dim in zip(columns, [*reversed(range(dims)), None], strict=True)]
    moved = functools.reduce(lambda total, term: mb.add(x=total, y=term), terms)
    return moved if size.elements is None else of_sizes(moved, [theta.shape[0], *size.elements[2:], dims])


def _centres(count: int, *, aligned: bool) -> np.ndarray:
    """Positions of elements from -1 to 1: at the ends are the outermost elements' centers, or their outer edges."""
    return np.linspace(-1, 1, count) if aligned else (2 * np.arange(count) + 1) / count - 1
