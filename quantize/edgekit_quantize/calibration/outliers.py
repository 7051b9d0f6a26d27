"""Finds samples unlike all others: a raw picture among normalized ones, or a number of a broken sensor.

A range that includes such a sample leaves few integers for all others, and the power of its outputs hides the errors of
theirs.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from edgekit.data.samples import Sample, Samples

FEWEST = 16
"""With fewer samples, none is an outlier: one may be that far from the others by chance."""
MOST = 20
"""At most one in MOST samples is an outlier; more are a regular kind of data."""
FAR = 30.0
"""An outlier's largest magnitude is at least FAR times the median over samples. For pixels up to 255 among normalized
ones, it is about a hundred times the median."""
APART = 10.0
"""An outlier's largest magnitude is also at least APART times that of the largest other sample: numbers with a long
tail, such as amounts of money, exceed their median by far, but without a gap."""
NAMED = 3
"""How many samples a warning names at most."""


class Peaks:
    """Records the largest magnitude of each float input in each sample."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._peaks: dict[str, list[float]] = {}

    def watch(self, feeds: Mapping[str, np.ndarray], name: str) -> None:
        """Takes note of one sample."""
        self._names.append(name)
        for key, array in feeds.items():
            if np.issubdtype(array.dtype, np.floating):
                peak = np.max(np.abs(array), where=np.isfinite(array), initial=0.0)
                self._peaks.setdefault(key, []).append(float(peak))

    def outlying(self) -> dict[int, str]:
        """The indices of samples that are outliers, each with a description."""
        found: dict[int, str] = {}
        for key, peaks in self._peaks.items():
            bound = _bound(peaks)
            middle = statistics.median(peaks)
            for place, peak in enumerate(peaks):
                if peak >= bound:
                    reached = f"reaches {peak:.3g}, at most {middle:.3g} in half of the samples"
                    found.setdefault(place, f"{self._names[place]}: the input {key!r} {reached}")
        return found


def _bound(peaks: Collection[float]) -> float:
    """The least magnitude that makes a sample an outlier; infinite if there are no outliers."""
    if len(peaks) < FEWEST:
        return np.inf
    falling = sorted(peaks, reverse=True)
    far = FAR * statistics.median(falling)
    if far == 0:  # initial states and absent masks are zeros, which give no scale to compare other samples with
        return np.inf
    for count in range(max(1, len(falling) // MOST), 0, -1):
        if falling[count - 1] >= max(far, APART * falling[count]):
            return falling[count - 1]
    return np.inf


def warning_of(outlying: Mapping[int, str]) -> str:
    """The warning of samples that are left out."""
    texts = [text for _, text in sorted(outlying.items())]
    more = f"; and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    count = "1 sample is" if len(texts) == 1 else f"{len(texts)} samples are"
    return (
        f"{count} left out of calibration and scores: {'; '.join(texts[:NAMED])}{more}. Check how these samples were "
        f"made; if the device meets such data, give more than one such sample in {MOST}"
    )


@dataclass(frozen=True)
class RemainingSamples:
    """Samples without some of them."""

    samples: Samples
    places: frozenset[int]
    """The indices of the samples that are left out, counted from 0."""

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""
        return self.samples.has_labels

    def __len__(self) -> int:
        return len(self.samples) - len(self.places)

    def __iter__(self) -> Iterator[Sample]:
        return (sample for place, sample in enumerate(self.samples) if place not in self.places)
