"""Sampling of images at arbitrary coordinates."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.kernels.refusal import refusal
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("resample")
def resample(
    call: Call,
    x: Array,
    coordinates: Array,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Array:
    """Sample each image at its coordinates.

    Args:
        call: The operation.
        x: [B, C, H, W].
        coordinates: [B, H2, W2, 2]: for each element of the result, the column and the row.
        sampling_mode: ``bilinear``, or ``nearest`` (ties to the even index, as in PyTorch).
        padding_mode: The values around the image: ``constant`` (``padding_value``), ``border`` (its edge),
            ``reflection`` (the image mirrored at the centers of its outermost elements) or ``symmetric`` (mirrored at
            their outer edges).
        padding_value: The value around the image if ``padding_mode`` is ``constant``.
        coordinates_mode: ``unnormalized``: indices; ``normalized_minus_one_to_one`` or ``normalized_zero_to_one``:
            the range of coordinates that covers the whole image.
        align_corners: Whether that range ends at the centers of the outermost elements, or at their outer edges.

    Returns:
        [B, C, H2, W2].
    """
    places = coordinates.astype(np.float32, copy=False)
    height, width = x.shape[2:]
    columns = _positions(places[..., 0], width, coordinates_mode, align_corners)
    rows = _positions(places[..., 1], height, coordinates_mode, align_corners)
    outside = padding_value if padding_mode == "constant" else None
    if outside is None:
        rows, columns = _fold(rows, height, padding_mode), _fold(columns, width, padding_mode)
    if sampling_mode == "nearest":
        return _gather(x, np.rint(rows), np.rint(columns), outside)
    if sampling_mode != "bilinear":
        raise ValueError(f"sampling_mode {sampling_mode!r}")
    return _bilinear(x, rows, columns, outside)


@kernel("affine")
def affine(
    call: Call,
    x: Array,
    transform_matrix: Array,
    output_height: int,
    output_width: int,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Array:
    """Sample images on an affinely transformed grid.

    The result's value at (u, v), both from -1 to 1, is the image's value at (a0 u + a1 v + a2, b0 u + b1 v + b2), where
    the rows of ``transform_matrix`` are a0, a1, a2, b0, b1, b2. Outside of the image the value is 0.

    Args:
        call: The operation.
        x: [B, C, H, W].
        transform_matrix: [B or 1, 6]: the numbers a0, a1, a2, b0, b1, b2.
        output_height: Height of the result.
        output_width: Width of the result.
        sampling_mode: ``bilinear``.
        padding_mode: ``constant``.
        padding_value: 0.
        coordinates_mode: ``normalized_minus_one_to_one``.
        align_corners: True.

    Raises:
        UnsupportedOpsError: One of the last five arguments does not have its documented value.
    """
    documented = ("bilinear", "constant", 0, "normalized_minus_one_to_one", True)
    if (sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners) != documented:
        raise refusal(call, "only bilinear sampling of zero-padded images with aligned corners is documented")
    v, u = np.meshgrid(_centred(output_height), _centred(output_width), indexing="ij")
    grid = np.stack([u, v, np.ones_like(u)], axis=-1)
    maps = np.broadcast_to(transform_matrix.reshape(-1, 1, 2, 3), (x.shape[0], 1, 2, 3))
    places = grid @ maps.swapaxes(-1, -2)
    columns, rows = (
        _positions(places[..., index], size, coordinates_mode, align_corners)
        for index, size in ((0, x.shape[3]), (1, x.shape[2]))
    )
    return _bilinear(x, rows, columns, padding_value)


# edgekit_coreai/translation/ops/sampling.py has the same formulas. The two implementations check each other, so they
# share no code.
def _centred(count: int) -> Array:
    """``count`` evenly spaced numbers from -1 to 1; only 0 if ``count`` is 1."""
    return np.linspace(-1, 1, count, dtype=np.float32) if count > 1 else np.zeros(1, np.float32)


def _positions(places: Array, size: int, mode: str, align_corners: bool) -> Array:
    """Convert coordinates along an axis to indices, which need not be whole numbers."""
    if mode == "unnormalized":
        return places
    if mode == "normalized_minus_one_to_one":
        places = (places + 1) / 2
    elif mode != "normalized_zero_to_one":
        raise ValueError(f"coordinates_mode {mode!r}")
    return places * (size - 1) if align_corners else places * size - np.float32(0.5)


def _fold(positions: Array, size: int, padding_mode: str) -> Array:
    """Map positions outside of an axis to the positions inside that have the same value under ``padding_mode``."""
    if padding_mode == "reflection":
        low, high = 0.0, size - 1.0
    elif padding_mode == "symmetric":
        low, high = -0.5, size - 0.5
    elif padding_mode == "border":
        return np.clip(positions, 0, size - 1)
    else:
        raise ValueError(f"padding_mode {padding_mode!r}")
    span = high - low
    if span == 0:
        return np.zeros_like(positions)
    # A triangle wave with the period 2 * span that rises from low to high and falls back.
    phase = np.abs(positions - np.float32(low)) % np.float32(2 * span)
    mirrored: Array = np.where(phase > span, 2 * span - phase, phase) + np.float32(low)
    return np.clip(mirrored, 0, size - 1).astype(np.float32)


def _bilinear(x: Array, rows: Array, columns: Array, outside: float | None) -> Array:
    """Bilinear interpolation of ``x`` [B, C, H, W] at positions [B, H2, W2]."""
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[:, np.newaxis], (columns - left)[:, np.newaxis]
    upper = _gather(x, top, left, outside) * (1 - right) + _gather(x, top, left + 1, outside) * right
    lower = _gather(x, top + 1, left, outside) * (1 - right) + _gather(x, top + 1, left + 1, outside) * right
    return np.asarray(upper * (1 - down) + lower * down)


def _gather(x: Array, rows: Array, columns: Array, outside: float | None) -> Array:
    """The elements of ``x`` [B, C, H, W] at whole positions [B, H2, W2].

    ``outside`` is the value at positions outside of the image; None: the value of the nearest element.
    """
    height, width = x.shape[2:]
    batch = np.arange(x.shape[0])[:, np.newaxis, np.newaxis]
    # A NaN position reads element 0: it counts as outside of the image, and its interpolation weights are NaN.
    near_rows = np.nan_to_num(np.clip(rows, 0, height - 1)).astype(np.intp)
    near_columns = np.nan_to_num(np.clip(columns, 0, width - 1)).astype(np.intp)
    values: Array = np.moveaxis(x[batch, :, near_rows, near_columns], -1, 1)
    if outside is None:
        return values
    inside = (rows == near_rows) & (columns == near_columns)
    return np.asarray(np.where(inside[:, np.newaxis], values, np.float32(outside)))
