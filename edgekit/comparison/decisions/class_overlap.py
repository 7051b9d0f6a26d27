"""How much the positions of a class in two models overlap: intersection over union."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgekit.comparison.boxes.matching import SAME_OBJECT
from edgekit.comparison.meaning_accuracy import LEAST_OVERLAP

FEWEST = 20
"""How many answers, or positions of a class, prove something: of fewer, one is more than the 5 % that may differ."""
CROSSING = 0.5
"""The probability from which on the answer is yes."""
UNSURE = (0.25, 0.75)
"""Between these a probability tells neither yes nor no: the quarters about a half."""


@dataclass(frozen=True)
class ClassAccuracy:
    """The class that two models agree on the least, of those with :data:`FEWEST` positions or more in the original."""

    number: int
    """Its place along the axis, or the number that stands for it."""
    places: int
    """How many positions have it in the original."""
    kept: int
    """How many of these have it in the built model too."""
    overlap: float
    """``kept`` over the positions that have it in one of the models."""
    told: bool = False
    """Whether the graph, names or the original's values tell that it is a class."""
    is_map: bool = False
    """Whether its positions are those of a map where a probability of its own is more than a half."""

    @property
    def least(self) -> float:
        """The overlap that is asked: that of boxes of one object, or of a map that of boxes on average.

        A map holds all objects. Where fewer than :data:`FEWEST` positions changed, that of one object is asked.
        """
        changed = round(self.kept / self.overlap) - self.kept if self.overlap else self.places
        return LEAST_OVERLAP if self.is_map and changed >= FEWEST else SAME_OBJECT

    @property
    def is_lost(self) -> bool:
        """Whether it is another class, as boxes that overlap as little are not of the same object."""
        return self.overlap < self.least

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        record = {"number": self.number, "places": self.places, "kept": self.kept, "overlap": self.overlap}
        return {**record, "told": self.told, **({"is_map": True} if self.is_map else {})}

    def __str__(self) -> str:
        return (
            f"{'map' if self.is_map else 'class'} {self.number} is kept at {self.kept} of its {self.places} places "
            f"(overlap {self.overlap:.2f}, at least {self.least:.2g})"
        )


def overlaps(
    in_reference: Mapping[int, int], in_built: Mapping[int, int], in_both: Mapping[int, int], told: bool
) -> Iterator[ClassAccuracy]:
    """How much the positions of each class overlap that has enough of them in the original."""
    for number, places in in_reference.items():
        if places >= FEWEST:
            kept = in_both.get(number, 0)
            overlap = kept / (places + in_built.get(number, 0) - kept)
            yield ClassAccuracy(number, places, kept, overlap, told)
