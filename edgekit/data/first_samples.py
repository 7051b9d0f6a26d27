"""The first of some samples, for work that takes long on each sample."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from edgekit.data.samples import Sample, Samples


class FirstSamples:
    """The first of some samples.

    Args:
        base: All of them.
        most: How many there are at most.
    """

    def __init__(self, base: Samples, most: int) -> None:
        self._base = base
        self._most = most

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""
        return self._base.has_labels

    def __len__(self) -> int:
        return min(len(self._base), self._most)

    def __iter__(self) -> Iterator[Sample]:
        return islice(iter(self._base), self._most)
