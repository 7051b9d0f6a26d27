"""Outputs that hold a quantity at every place of a picture or a volume: a displacement in voxels, a temperature.

Such a field may vary little around a large number, as a flow does that is mostly a shift, or a temperature in kelvin.
The power of the output is that of the number then: a shift of 3 voxels give or take 0.4 has 20 dB although one of the
three components is zero throughout. What counts is the power of what varies about each channel's mean, over places and
samples. It is asked only if the whole output has more than :data:`AROUND` times that power; for other fields the floor
of the signal asks for as much. Outputs with more channels than quantities have hold features, or the cells of a
detector.

If channels have different scales, the one that is explained the least is reported, as for columns
(:mod:`edgekit.comparison.numbers.columns`).
"""

from __future__ import annotations

import math

import numpy as np

from edgekit.comparison.numbers.columns import APART, MOST_COLUMNS, SAME, ColumnAccuracy

AROUND = 10.0
"""The whole has to have more than this many times the power of what varies: 20 dB of the former are then 10 dB of the
latter."""


class Fields:
    """Gathers what each channel of one output keeps of the original's, sample by sample.

    Args:
        axis: The axis of the channels; None if the output is no field.
    """

    def __init__(self, axis: int | None) -> None:
        self._axis = axis
        self._count = 0
        self._means: np.ndarray | None = None
        self._sum = self._squares = self._power = self._noise = np.zeros(0)

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Compares the output for one more sample; a field that is not finite throughout does not count."""
        if self._axis is None or reference.dtype.kind != "f" or reference.size == 0:
            return
        wide, found = (
            np.moveaxis(each, self._axis, -1).reshape(-1, reference.shape[self._axis]).astype(np.float64)
            for each in (reference, built)
        )
        if not (np.isfinite(wide).all() and np.isfinite(found).all()) or (
            self._means is not None and wide.shape[-1] != len(self._means)
        ):
            self._axis = None
            return
        if self._means is None:
            self._means = wide.mean(axis=0)
            self._sum, self._squares, self._power, self._noise = np.zeros((4, len(self._means)))
        offset = wide - self._means  # keeps the digits of channels that vary little around a large number
        self._count += len(wide)
        self._sum = self._sum + offset.sum(axis=0)
        self._squares = self._squares + (offset**2).sum(axis=0)
        self._power = self._power + (wide**2).sum(axis=0)
        self._noise = self._noise + ((found - wide) ** 2).sum(axis=0)

    def centred_db(self) -> float | None:
        """Returns the SQNR in dB of what varies; None if that is nothing, or nearly all, or with many channels."""
        varying = self._varying_channels
        if len(self._power) > MOST_COLUMNS:
            return None
        variance = float(self._variance[varying].sum())
        if variance == 0 or float(self._power[varying].sum()) <= AROUND * variance:
            return None
        noise = float(self._noise[varying].sum())
        return math.inf if noise == 0 else 10 * math.log10(variance / noise)

    def worst(self) -> ColumnAccuracy | None:
        """Returns the channel that is explained the least, or None if channels have one scale, or are many."""
        varying = self._varying_channels
        variance = self._variance
        if not 2 <= len(varying) <= MOST_COLUMNS or variance[varying].max() < APART * variance[varying].min():
            return None
        explained = 1 - self._noise[varying] / variance[varying]
        least = int(explained.argmin())
        return ColumnAccuracy(int(varying[least]), len(variance), float(explained[least]), is_channel=True)

    @property
    def _varying_channels(self) -> np.ndarray:
        """The channels that vary by more than rounding."""
        return np.flatnonzero(self._variance > SAME * self._power) if self._axis is not None else np.zeros(0, int)

    @property
    def _variance(self) -> np.ndarray:
        return self._squares - self._sum**2 / max(self._count, 1)
