"""Resizing along one axis as a table: which input elements each output element is made of, and with what weights.

Formulas are those of the ONNX specification of Resize. Coordinates are computed in float32 as runtimes do, so that a
coordinate halfway between two elements is rounded to the same side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Table = np.ndarray
"""Weights [out, in]."""


class UnknownModeError(ValueError):
    """The mode is not in the specification."""


ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": lambda x: np.floor(x),
    "ceil": lambda x: np.ceil(x),
}


@dataclass(frozen=True)
class Axis:
    """One axis to resize."""

    size: int
    out: int
    scale: float
    """Output elements per input element, as given: ``size * scale`` need not be a whole number."""
    roi: tuple[float, float] = (0.0, 1.0)
    """Begin and end of the region that ``tf_crop_and_resize`` takes, as shares of ``size - 1``."""

    def coordinates(self, transformation: str) -> np.ndarray:
        """Returns the position of each output element in the input: [out].

        Args:
            transformation: ``coordinate_transformation_mode``.

        Raises:
            UnknownModeError: There is no such mode.
        """
        x = np.arange(self.out, dtype=np.float32)
        scale, last = np.float32(self.scale), np.float32(self.size - 1)
        half = np.float32(0.5)
        exact = scale * np.float32(self.size)
        if transformation == "half_pixel":
            return (x + half) / scale - half
        if transformation == "asymmetric":
            return x / scale
        if transformation == "pytorch_half_pixel":
            return (x + half) / scale - half if self.out > 1 else np.zeros(1, np.float32)
        if transformation == "tf_half_pixel_for_nn":
            return x if scale == 1 else (x + half) / scale  # runtimes keep an axis whose factor is 1, channels too
        if transformation == "align_corners":
            return np.zeros_like(x) if exact == 1 else x * last / (exact - 1)
        if transformation == "half_pixel_symmetric":
            offset = np.float32(self.size / 2) * (1 - np.float32(self.out) / exact)
            return offset + (x + half) / scale - half
        if transformation == "tf_crop_and_resize":
            begin, end = map(np.float32, self.roi)
            if self.out == 1:
                return np.full(1, half * (begin + end) * last)
            return begin * last + x * (end - begin) * last / np.float32(self.out - 1)
        raise UnknownModeError(f"unknown coordinate_transformation_mode {transformation!r}")


def nearest_indices(axis: Axis, coordinates: np.ndarray, rounding: str) -> np.ndarray:
    """Returns the index of the input element that each output element repeats: [out].

    Raises:
        UnknownModeError: There is no such rounding.
    """
    if rounding not in ROUNDINGS:
        raise UnknownModeError(f"unknown nearest_mode {rounding!r}")
    chosen: np.ndarray = np.clip(ROUNDINGS[rounding](coordinates), 0, axis.size - 1)
    return chosen.astype(np.int32)


def linear_table(axis: Axis, coordinates: np.ndarray, *, antialias: bool, exclude_outside: bool) -> Table:
    """Returns weights of linear interpolation; antialiasing widens the triangle by the downscaling factor."""
    squeeze = min(axis.scale, 1.0) if antialias else 1.0
    return _filtered(axis, coordinates, lambda x: np.maximum(1 - np.abs(x), 0), 1, squeeze, exclude_outside)


def cubic_table(axis: Axis, coordinates: np.ndarray, *, a: float, antialias: bool, exclude_outside: bool) -> Table:
    """Weights of cubic convolution (Keys 1981) with the coefficient ``a``."""

    def keys(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    squeeze = min(axis.scale, 1.0) if antialias else 1.0
    return _filtered(axis, coordinates, keys, 2, squeeze, exclude_outside)


def _filtered(
    axis: Axis,
    coordinates: np.ndarray,
    kernel: Callable[[np.ndarray], np.ndarray],
    radius: int,
    squeeze: float,
    exclude_outside: bool,
) -> Table:
    """Returns normalized weights of a symmetric kernel around each coordinate; positions outside count for the border.

    Args:
        axis: The axis.
        coordinates: Positions of the output elements in the input.
        kernel: Weight by distance; zero from ``radius`` on.
        radius: The kernel's radius, in input elements if ``squeeze`` is 1.
        squeeze: The factor by which distances are multiplied first.
        exclude_outside: Whether positions outside have weight 0 instead.
    """
    reach = int(np.ceil(radius / squeeze)) + 1
    base = np.floor(coordinates.astype(np.float64)).astype(np.int64)
    positions = base[:, None] + np.arange(-reach, reach + 1)
    weights = kernel((positions - coordinates.astype(np.float64)[:, None]) * squeeze)
    if exclude_outside:
        weights = np.where((positions >= 0) & (positions < axis.size), weights, 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    table = np.zeros((axis.out, axis.size))
    rows = np.broadcast_to(np.arange(axis.out)[:, None], positions.shape)
    np.add.at(table, (rows, np.clip(positions, 0, axis.size - 1)), weights)
    return table


def output_sizes(
    lengths: Sequence[int], sizes: Sequence[int] | None, scales: Sequence[float] | None, policy: str
) -> tuple[list[int], list[float]]:
    """Returns output sizes and factors along the axes that are resized.

    Args:
        lengths: The input's sizes along these axes.
        sizes: The requested sizes; None if ``scales`` are given instead.
        scales: The factors.
        policy: ``keep_aspect_ratio_policy``, which applies to ``sizes``.

    Raises:
        UnknownModeError: There is no such policy, or neither sizes nor scales are given.
    """
    if sizes is not None:
        ratios = [want / length for want, length in zip(sizes, lengths, strict=True)]
        if policy == "stretch":
            return list(sizes), ratios
        if policy not in ("not_larger", "not_smaller"):
            raise UnknownModeError(f"unknown keep_aspect_ratio_policy {policy!r}")
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [int(np.floor(ratio * length + 0.5)) for length in lengths], [ratio] * len(lengths)
    if scales is None:
        raise UnknownModeError("has neither sizes nor scales")
    return [scaled(length, factor) for length, factor in zip(lengths, scales, strict=True)], list(scales)


def scaled(length: int, factor: float) -> int:
    """Output size along an axis; the product is float32's, as in ONNX's shape inference."""
    return int(np.floor(np.float32(length) * np.float32(factor)))
