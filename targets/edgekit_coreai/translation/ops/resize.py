"""Resizing of whole images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.slicing import whole_number
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


def _points(mode: str, size: int, count: int) -> tuple[float, float]:
    """Returns ``first`` and ``step``: point ``i`` of ``count`` on an axis of ``size`` elements is ``first + i * step``.

    Points beyond the first or last element take that element's value. The formulas are those of MIL's
    ``sampling_mode``.
    """
    length = size - 1.0
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        centred = count == 1 and mode == "ALIGN_CORNERS"
        return (length / 2 if centred else 0.0), length / max(count - 1, 1)
    if mode == "DEFAULT":
        return 0.0, (length + 1) / count
    if mode == "OFFSET_CORNERS":
        step = max(length, 1) / count
        return step / 2, step
    if mode == "UNALIGN_CORNERS":
        step = (length + 1) / count
        return step / 2 - 0.5, step
    raise CannotTranslate(f"there is no sampling mode {mode}")


def _linear(b: Builder, x: Tensor, sizes: Mapping[int, int | Tensor], mode: str) -> Tensor:
    """Linear interpolation along several axes, by Apple's ``interpolate`` with the affine map of each axis."""
    shape = b.all_sizes(x)
    scale: list[float | Tensor] = [1.0] * x.rank
    offset: list[float | Tensor] = [0.0] * x.rank
    for axis, count in sizes.items():
        size = shape[axis]
        shape[axis] = count
        # Apple's point i is (i + 0.5 - offset) / scale - 0.5.
        if isinstance(size, int) and isinstance(count, int):
            first, step = _points(mode, size, count)
            if count == 1 or step == 0:
                step = 1.0
            scale[axis], offset[axis] = 1 / step, 0.5 - (first + 0.5) / step
        else:
            start, between = _open_points(b, mode, size, count)
            scale[axis] = b.div(b.like(1, between), between)
            offset[axis] = b.sub(b.like(0.5, start), b.div(b.add(start, 0.5), between))
    return b.interpolate(x, shape, _numbers(b, scale), _numbers(b, offset), "linear")


def _numbers(b: Builder, items: Sequence[float | Tensor]) -> Tensor:
    """A vector of float32."""
    if not any(isinstance(item, Tensor) for item in items):
        return b.constant(np.array(items, np.float32))
    parts = [item if isinstance(item, Tensor) else b.constant(np.float32(item)) for item in items]
    return b.concat([b.op("reshape", part, [1]) for part in parts], 0)


def _real(b: Builder, size: int | Tensor) -> Tensor:
    """A size in float32."""
    return b.cast(size, np.float32) if isinstance(size, Tensor) else b.constant(np.float32(size))


def _open_points(b: Builder, mode: str, size: int | Tensor, count: int | Tensor) -> tuple[Tensor, Tensor]:
    """``_points`` for sizes that are known only at run time: the first point, and the step, which is never 0."""
    whole, many = _real(b, size), _real(b, count)
    length = b.sub(whole, 1)
    zero = b.like(0, whole)
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        step = b.div(length, b.maximum(b.sub(many, 1), 1))
        first = zero if mode == "STRICT_ALIGN_CORNERS" else b.select(b.equal(many, 1), b.mul(length, 0.5), zero)
    elif mode == "DEFAULT":
        first, step = zero, b.div(whole, many)
    elif mode == "OFFSET_CORNERS":
        step = b.div(b.maximum(length, 1), many)
        first = b.mul(step, 0.5)
    elif mode == "UNALIGN_CORNERS":
        step = b.div(whole, many)
        first = b.sub(b.mul(step, 0.5), 0.5)
    else:
        raise CannotTranslate(f"there is no sampling mode {mode}")
    return first, b.select(b.equal(step, 0), 1, step)


def _scaled(b: Builder, x: Tensor, height: float, width: float) -> dict[int, int | Tensor]:
    """New sizes of the last two axes: ``floor(size * factor)``, computed in float32, the type of the factors."""
    result: dict[int, int | Tensor] = {}
    for axis, factor in ((-2, height), (-1, width)):
        size = b.size(x, axis)
        result[axis] = (
            math.floor(np.float32(size) * np.float32(factor))
            if isinstance(size, int)
            else b.cast(b.mul(b.cast(size, np.float32), float(np.float32(factor))), np.int32)
        )
    return result


def _pick(b: Builder, x: Tensor, axis: int, picked: np.ndarray | Tensor) -> Tensor:
    """The elements with the indices ``picked`` along an axis."""
    axis %= x.rank
    if isinstance(picked, Tensor):
        return b.gather(x, picked, axis)
    size = x.shape[axis]
    assert size is not None
    repeats, rest = divmod(len(picked), size)
    if rest == 0 and np.array_equal(picked, np.arange(len(picked)) // repeats):
        return _repeated(b, x, axis, repeats)
    return b.gather(x, b.constant(picked.astype(np.int32)), axis)


def _repeated(b: Builder, x: Tensor, axis: int, repeats: int) -> Tensor:
    """Each element of an axis several times in a row."""
    if repeats == 1:
        return x
    sizes = b.all_sizes(x)
    spread = b.expand(x, [axis + 1])
    wide = b.broadcast(spread, [*sizes[: axis + 1], repeats, *sizes[axis + 1 :]])
    size = sizes[axis]
    sizes[axis] = size * repeats if isinstance(size, int) else b.mul(size, repeats)
    return b.reshape(wide, sizes)


@lowering("resize_bilinear")
def resize_bilinear(
    b: Builder,
    call: Call,
    x: Tensor,
    target_size_height: int = 1,
    target_size_width: int = 1,
    sampling_mode: str = "DEFAULT",
) -> Tensor:
    """Resize the last two axes with bilinear interpolation."""
    return _linear(b, x, {-2: target_size_height, -1: target_size_width}, sampling_mode)


@lowering("upsample_bilinear")
def upsample_bilinear(
    b: Builder,
    call: Call,
    x: Tensor,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """Resize the last two axes to ``floor(size * factor)`` with bilinear interpolation."""
    if half_pixel_centers is None:
        half_pixel_centers = not align_corners
    if align_corners and half_pixel_centers:
        raise CannotTranslate("align_corners together with half_pixel_centers")
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS" if half_pixel_centers else "DEFAULT"
    return _linear(b, x, _scaled(b, x, scale_factor_height, scale_factor_width), mode)


@lowering("upsample_nearest_neighbor")
def upsample_nearest_neighbor(
    b: Builder, call: Call, x: Tensor, scale_factor_height: float = 1, scale_factor_width: float = 1
) -> Tensor:
    """Resize the last two axes to ``floor(size * factor)``; element i is the input's ``floor(i * size / new size)``."""
    counts = _scaled(b, x, scale_factor_height, scale_factor_width)
    for axis, factor in ((-2, scale_factor_height), (-1, scale_factor_width)):
        if float(factor).is_integer():
            x = _repeated(b, x, axis % x.rank, int(factor))
            continue
        size, count = b.size(x, axis), counts[axis]
        if isinstance(size, int) and isinstance(count, int):
            x = _pick(b, x, axis, np.arange(count) * size // count)
        else:
            x = _pick(b, x, axis, b.div(b.mul(b.positions(count), whole_number(b, size)), whole_number(b, count)))
    return x


def _nearest(mode: str, size: int, count: int) -> np.ndarray:
    """Indices of the elements nearest to the points; with ``DEFAULT``, of those that contain the new centers."""
    if mode == "DEFAULT":
        return (2 * np.arange(count) + 1) * size // (2 * count)
    first, step = _points(mode, size, count)
    places = np.clip(first + np.arange(count) * step, 0, size - 1)
    picked: np.ndarray = np.minimum(np.floor(places + 0.5).astype(np.int64), size - 1)
    return picked


def _open_nearest(b: Builder, mode: str, size: int | Tensor, count: int | Tensor) -> Tensor:
    """``_nearest`` for sizes that are known only at run time."""
    whole, many, steps = whole_number(b, size), whole_number(b, count), b.positions(count)
    if mode == "DEFAULT":
        return b.div(b.mul(b.add(b.mul(steps, 2), 1), whole), b.mul(many, 2))
    first, step = _open_points(b, mode, size, count)
    places = b.add(first, b.mul(b.cast(steps, np.float32), step))
    last = b.sub(whole, 1)
    near = b.minimum(b.maximum(places, 0), b.cast(last, np.float32))
    return b.minimum(b.cast(b.add(near, 0.5), np.int32), last)


@lowering("resize_nearest_neighbor")
def resize_nearest_neighbor(
    b: Builder, call: Call, x: Tensor, target_size_height: int, target_size_width: int
) -> Tensor:
    """Resize the last two axes; element i is the input's ``floor((i + 0.5) * size / new size)``."""
    shape = b.constant(np.array([target_size_height, target_size_width], np.int32))
    return resize(b, call, x, shape, 2, "NEAREST_NEIGHBOR")


@lowering("resize", opset=17)
def resize(
    b: Builder,
    call: Call,
    x: Tensor,
    shape: Tensor,
    resized_dims: int,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> Tensor:
    """Resize the last ``resized_dims`` axes to the last elements of ``shape``, where 0 keeps the size of the axis."""
    wanted = {axis: _wanted(b, shape, axis, b.size(x, axis)) for axis in range(-resized_dims, 0)}
    if interpolation_mode == "LINEAR":
        return _linear(b, x, wanted, sampling_mode)
    for axis, count in wanted.items():
        size = b.size(x, axis)
        if isinstance(size, int) and isinstance(count, int):
            picked: np.ndarray | Tensor = _nearest(sampling_mode, size, count)
        else:
            picked = _open_nearest(b, sampling_mode, size, count)
        x = _pick(b, x, axis, picked)
    return x


def _wanted(b: Builder, shape: Tensor, axis: int, size: int | Tensor) -> int | Tensor:
    """The element of ``shape`` for an axis, where 0 keeps the size."""
    if shape.array is not None:
        return int(shape.array.reshape(-1)[axis]) or size
    (count,) = shape.sizes
    item = b.op("reshape", b.narrow(b.cast(shape, np.int32), 0, count + axis, count + axis + 1), [])
    return b.select(b.equal(item, 0), whole_number(b, size), item)
