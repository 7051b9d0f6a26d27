"""Samples that are no such data as the others: a raw picture among normalised ones, a broken sensor's number.

A range that reaches so far leaves few integers to all other samples, and the power of such a sample's outputs hides
what becomes of theirs.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from edgekit.data.samples import Sample, Samples

FEWEST = 16
"""Of fewer samples one may be as far from the others by chance."""
MOST = 20
"""At most one in this many is an outlier; more are a kind of data."""
FAR = 30.0
"""How many times the median of what samples reach an outlier reaches at least. Pixels up to 255 among normalised ones
reach a hundred times as far."""
APART = 10.0
"""How many times what the largest of the others reaches: numbers with a long tail, such as amounts of money, reach far
beyond their median without a gap."""
NAMED = 3
"""How many samples a warning names."""


class Peaks:
    """Notes how far each input of floats reaches in each sample."""

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
        """The places of samples that are outliers, and what each is in words."""
        found: dict[int, str] = {}
        for key, peaks in self._peaks.items():
            bound = _bound(peaks)
            middle = statistics.median(peaks)
            for place, peak in enumerate(peaks):
                if peak >= bound:
                    reached = f"reaches {peak:.3g}, {middle:.3g} in half of the samples"
                    found.setdefault(place, f"{self._names[place]}: the input {key!r} {reached}")
        return found


def _bound(peaks: Collection[float]) -> float:
    """From where on what a sample reaches makes it an outlier; infinite where there is none."""
    if len(peaks) < FEWEST:
        return np.inf
    falling = sorted(peaks, reverse=True)
    far = FAR * statistics.median(falling)
    if far == 0:  # zeros are how a state begins and how no mask looks: nothing else has a scale beside them
        return np.inf
    for count in range(max(1, len(falling) // MOST), 0, -1):
        if falling[count - 1] >= max(far, APART * falling[count]):
            return falling[count - 1]
    return np.inf


def warning_of(outlying: Mapping[int, str]) -> str:
    """What to tell of samples that are left out."""
    told = [text for _, text in sorted(outlying.items())]
    more = f"; and {len(told) - NAMED} more" if len(told) > NAMED else ""
    count = "1 sample is" if len(told) == 1 else f"{len(told)} samples are"
    return (
        f"{count} left out of calibration and scores: {'; '.join(told[:NAMED])}{more}. Check how such samples were "
        f"made; if the device meets their like, give more of them than one in {MOST}"
    )


@dataclass(frozen=True)
class Without:
    """Samples without some of them."""

    samples: Samples
    places: frozenset[int]
    """Which ones are missing, counted from 0."""

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""
        return self.samples.has_labels

    def __len__(self) -> int:
        return len(self.samples) - len(self.places)

    def __iter__(self) -> Iterator[Sample]:
        return (sample for place, sample in enumerate(self.samples) if place not in self.places)
