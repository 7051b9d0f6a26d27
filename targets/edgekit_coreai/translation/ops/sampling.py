"""Sampling of images at computed coordinates, and resizing of boxes within images."""

from __future__ import annotations

import functools

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.elementwise import clamped, rounded_down
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("resample")
def resample(
    b: Builder,
    call: Call,
    x: Tensor,
    coordinates: Tensor,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """Sample each image of ``x`` [B, C, H, W] at ``coordinates`` [B, H2, W2, 2], columns before rows."""
    x = b.wide(x)
    places = b.cast(coordinates, np.float32)
    axes = [b.squeeze(b.narrow(places, 3, which, which + 1), [3]) for which in (0, 1)]
    columns, rows = (
        _positions(b, place, x.shape[axis], coordinates_mode, align_corners)
        for place, axis in zip(axes, (3, 2), strict=True)
    )
    return _sampled(b, x, rows, columns, sampling_mode, padding_mode, padding_value)


@lowering("affine")
def affine(
    b: Builder,
    call: Call,
    x: Tensor,
    transform_matrix: Tensor,
    output_height: int,
    output_width: int,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """Sample images on an affinely transformed grid, whose coordinates are from -1 to 1 before the transformation."""
    x = b.wide(x)
    v, u = np.meshgrid(_centred(output_height), _centred(output_width), indexing="ij")
    grid = b.constant(np.stack([u, v, np.ones_like(u)], axis=-1).reshape(1, -1, 3).astype(np.float32))
    maps = b.transpose(b.reshape(b.wide(transform_matrix), [-1, 2, 3]), [0, 2, 1])
    places = b.reshape(b.matmul(grid, maps), [-1, output_height, output_width, 2])
    places = b.broadcast(places, [b.size(x, 0), output_height, output_width, 2])
    return resample(b, call, x, places, sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners)


# edgekit_mlruntime/kernels/resample.py has the same formulas. The two implementations check each other, so they share
# no code.
def _centred(count: int) -> np.ndarray:
    """``count`` evenly spaced numbers from -1 to 1; only 0 if ``count`` is 1."""
    return np.linspace(-1, 1, count, dtype=np.float32) if count > 1 else np.zeros(1, np.float32)


def _positions(b: Builder, places: Tensor, size: int | None, mode: str, align_corners: bool) -> Tensor:
    """Convert coordinates along an axis to indices, which need not be whole numbers."""
    if size is None:
        raise CannotTranslate("samples of a size that is open")
    if mode == "unnormalized":
        return places
    if mode == "normalized_minus_one_to_one":
        places = b.mul(b.add(places, 1), 0.5)
    elif mode != "normalized_zero_to_one":
        raise CannotTranslate(f"there is no coordinates mode {mode}")
    return b.mul(places, size - 1) if align_corners else b.sub(b.mul(places, size), 0.5)


def _folded(b: Builder, positions: Tensor, size: int, padding_mode: str) -> Tensor:
    """Map positions outside of an axis to the positions inside that have the same value under ``padding_mode``."""
    if padding_mode == "border":
        return clamped(b, positions, 0, size - 1)
    if padding_mode not in ("reflection", "symmetric"):
        raise CannotTranslate(f"there is no padding mode {padding_mode}")
    low = 0.0 if padding_mode == "reflection" else -0.5
    span = size - 1 - 2 * low
    if span == 0:
        return b.mul(positions, 0)
    # A triangle wave with the period 2 * span that rises from low to high and falls back.
    phase = b.spread("modulo", b.op("abs_", b.sub(positions, low)), b.like(2 * span, positions))
    mirrored = b.add(b.minimum(phase, b.sub(b.like(2 * span, phase), phase)), low)
    return clamped(b, mirrored, 0, size - 1)


def _sampled(
    b: Builder,
    x: Tensor,
    rows: Tensor,
    columns: Tensor,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
) -> Tensor:
    """The values of ``x`` [B, C, H, W] at positions [B, H2, W2]: [B, C, H2, W2]."""
    outside = padding_value if padding_mode == "constant" else None
    height, width = x.shape[2:]
    if height is None or width is None:
        raise CannotTranslate("samples of a size that is open")
    if outside is None:
        rows, columns = _folded(b, rows, height, padding_mode), _folded(b, columns, width, padding_mode)
    if sampling_mode == "nearest":
        return _at(b, x, b.op("round_", rows), b.op("round_", columns), outside)
    if sampling_mode != "bilinear":
        raise CannotTranslate(f"there is no sampling mode {sampling_mode}")
    top, left = rounded_down(b, rows), rounded_down(b, columns)
    down, right = (b.expand(b.sub(exact, floor), [1]) for exact, floor in ((rows, top), (columns, left)))
    up, over = (b.sub(b.like(1, part), part) for part in (down, right))
    upper = b.add(b.mul(_at(b, x, top, left, outside), over), b.mul(_at(b, x, top, b.add(left, 1), outside), right))
    below = b.add(top, 1)
    lower = b.add(b.mul(_at(b, x, below, left, outside), over), b.mul(_at(b, x, below, b.add(left, 1), outside), right))
    return b.add(b.mul(upper, up), b.mul(lower, down))


def _at(b: Builder, x: Tensor, rows: Tensor, columns: Tensor, outside: float | None) -> Tensor:
    """The elements of ``x`` [B, C, H, W] at whole positions [B, H2, W2].

    ``outside`` is the value at positions outside of the image; None: the value of the nearest element.
    """
    n, channels, height, width = b.all_sizes(x)
    assert isinstance(height, int)
    assert isinstance(width, int)
    near_rows, near_columns = clamped(b, rows, 0, height - 1), clamped(b, columns, 0, width - 1)
    # A NaN position reads element 0: the interpolation weights are NaN, or the value is replaced by ``outside`` below.
    index = b.cast(b.add(b.mul(_whole(b, near_rows), width), _whole(b, near_columns)), np.int32)
    flat = b.reshape(x, [n, channels, height * width])
    count = b.all_sizes(rows)
    area = _product(b, count[1], count[2])
    picked = b.broadcast(b.reshape(index, [count[0], 1, area]), [n, channels, area])
    values = b.reshape(b.along_axis(flat, picked, 2), [n, channels, count[1], count[2]])
    if outside is None:
        return values
    inside = b.spread("and", b.equal(rows, near_rows), b.equal(columns, near_columns))
    return b.select(b.expand(inside, [1]), values, outside)


def _whole(b: Builder, x: Tensor) -> Tensor:
    return b.cast(b.select(b.equal(x, x), x, 0), np.int32)


def _product(b: Builder, first: int | Tensor, second: int | Tensor) -> int | Tensor:
    if isinstance(first, Tensor):
        return b.mul(first, second)
    return first * second if isinstance(second, int) else b.mul(second, first)


_BOX_MODES = {
    "CORNERS_HEIGHT_FIRST": (False, (0, 1, 2, 3)),
    "CORNERS_WIDTH_FIRST": (False, (1, 0, 3, 2)),
    "CENTER_SIZE_HEIGHT_FIRST": (True, (0, 1, 2, 3)),
    "CENTER_SIZE_WIDTH_FIRST": (True, (1, 0, 3, 2)),
}


@lowering("crop_resize", opset=17)
def crop_resize(
    b: Builder,
    call: Call,
    x: Tensor,
    boxes: Tensor,
    box_indices: Tensor | None = None,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Tensor:
    """Cut boxes [N, 4] out of images and resize them with bilinear interpolation: [N, C, height, width]."""
    count = boxes.shape[0]
    if count is None:
        raise CannotTranslate("the number of boxes is open")
    if box_indices is None:
        box_indices = b.constant(np.arange(count, dtype=np.int32))
    images = b.gather(x, b.reshape(box_indices, [-1]), 0)
    return _cut(
        b,
        images,
        b.reshape(boxes, [count, 4]),
        (target_height, target_width),
        normalized_coordinates,
        spatial_scale,
        box_coordinate_mode,
        sampling_mode,
        pad_value,
    )


@lowering("crop_resize")
def crop_resize_by_roi(
    b: Builder,
    call: Call,
    x: Tensor,
    roi: Tensor,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Tensor:
    """``crop_resize`` with ``roi`` [N, 1, 4, 1, 1], boxes to be cut out of every image, or [N, 1, 5, 1, 1].

    With 5 numbers, the index of its image precedes each box.
    """
    count, _, width = roi.sizes[:3]
    table = b.reshape(roi, [count, width])
    boxes = b.narrow(table, 1, width - 4, width)
    if width == 5:
        index = b.cast(b.reshape(b.narrow(table, 1, 0, 1), [count]), np.int32)
        pictures: int | Tensor = 1
        images = b.gather(x, index, 0)
    else:
        # Each box is cut out of every image: N * B pairs of a box and an image.
        pictures = b.size(x, 0)
        images = b.concat([x] * count, 0)
        boxes = b.reshape(b.broadcast(b.expand(boxes, [1]), [count, pictures, 4]), [-1, 4])
    made = _cut(
        b,
        images,
        boxes,
        (target_height, target_width),
        normalized_coordinates,
        spatial_scale,
        box_coordinate_mode,
        sampling_mode,
        pad_value,
    )
    return b.reshape(made, [count, pictures, *b.all_sizes(made)[1:]])


def _cut(
    b: Builder,
    images: Tensor,
    boxes: Tensor,
    target: tuple[int, int],
    normalized: bool,
    spatial_scale: float,
    box_mode: str,
    sampling_mode: str,
    pad_value: float,
) -> Tensor:
    """Samples image ``i`` of [N, C, H, W] within box ``i`` of [N, 4]."""
    if box_mode not in _BOX_MODES:
        raise CannotTranslate(f"there is no box coordinate mode {box_mode}")
    centred, order = _BOX_MODES[box_mode]
    images, boxes = b.wide(images), b.mul(b.cast(boxes, np.float32), spatial_scale)
    parts = [b.narrow(boxes, 1, place, place + 1) for place in order]
    if centred:
        halves = [b.mul(part, 0.5) for part in parts[2:]]
        parts = [
            *(b.sub(centre, half) for centre, half in zip(parts[:2], halves, strict=True)),
            *(b.add(centre, half) for centre, half in zip(parts[:2], halves, strict=True)),
        ]
    height, width = images.shape[2:]
    if height is None or width is None:
        raise CannotTranslate("boxes in images of a size that is open")
    ends = [height - 1, width - 1, height - 1, width - 1]
    if normalized:
        parts = [b.mul(part, end) for part, end in zip(parts, ends, strict=True)]
    if sampling_mode == "UNALIGN_CORNERS":
        # Apple's own test of this mode has a box beyond the image, and expects the whole image.
        wrong = [b.spread("or", b.less(part, 0), b.greater(part, end)) for part, end in zip(parts, ends, strict=True)]
        beyond = functools.reduce(functools.partial(b.spread, "or"), wrong)
        parts = [b.select(beyond, edge, part) for part, edge in zip(parts, [0, 0, *ends[2:]], strict=True)]
    lines = [_box_points(b, parts[axis], parts[axis + 2], target[axis], sampling_mode) for axis in (0, 1)]
    count = b.size(boxes, 0)
    rows, columns = (
        b.broadcast(b.expand(line, [place]), [count, *target]) for line, place in zip(lines, (2, 1), strict=True)
    )
    near = [clamped(b, line, 0, (size or 1) - 1) for line, size in zip((rows, columns), images.shape[2:], strict=True)]
    made = _sampled(b, images, near[0], near[1], "bilinear", "border", 0)
    inside = [
        b.spread("and", b.op("not_", b.less(line, 0)), b.op("not_", b.greater(line, (size or 1) - 1)))
        for line, size in zip((rows, columns), images.shape[2:], strict=True)
    ]
    return b.select(b.expand(b.spread("and", *inside), [1]), made, pad_value)


def _box_points(b: Builder, first: Tensor, last: Tensor, count: int, mode: str) -> Tensor:
    """Sampled positions [N, count] between ``first`` [N, 1] and ``last`` [N, 1]."""
    length = b.sub(last, first)
    steps = b.constant(np.arange(count, dtype=np.float32).reshape(1, -1))
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        if count == 1 and mode == "ALIGN_CORNERS":
            points = b.add(first, b.mul(length, 0.5))
        else:
            points = b.add(first, b.mul(b.div(length, max(count - 1, 1)), steps))
    elif mode == "DEFAULT":
        points = b.add(first, b.mul(b.div(b.add(length, 1), count), steps))
    elif mode == "OFFSET_CORNERS":
        points = b.add(first, b.mul(b.div(b.maximum(length, 1), count), b.add(steps, 0.5)))
    elif mode == "UNALIGN_CORNERS":
        points = b.sub(b.add(first, b.mul(b.div(b.add(length, 1), count), b.add(steps, 0.5))), 0.5)
    else:
        raise CannotTranslate(f"there is no sampling mode {mode}")
    low, high = b.minimum(first, last), b.maximum(first, last)
    return b.minimum(b.maximum(points, low), high)
