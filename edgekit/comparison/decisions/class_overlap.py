"""How much the positions of a class in two models overlap: intersection over union."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgekit.comparison.boxes.matching import SAME_OBJECT
from edgekit.comparison.meaning_accuracy import LEAST_OVERLAP

FEWEST = 20
"""The least number of answers, or positions of a class, to judge by: of fewer, one is more than the 5 % that may
differ."""
CROSSING = 0.5
"""The probability from which on the answer is yes."""
UNSURE = (0.25, 0.75)
"""Between these two probabilities an answer is neither surely yes nor surely no: the quarters about a half."""


@dataclass(frozen=True)
class ClassAccuracy:
    """The class that two models agree on the least, of those with :data:`FEWEST` positions or more in the original."""

    number: int
    """The index along the axis of classes, or the class's number in an output of class numbers."""
    places: int
    """How many positions have it in the original."""
    kept: int
    """How many of :attr:`places` have the class in the built model, too."""
    overlap: float
    """:attr:`kept` over the positions that have the class in at least one of the models."""
    is_known: bool = False
    """Whether the graph, names or the original's values tell that it is a class."""
    is_map: bool = False
    """Whether the class has a map of probabilities of its own, and its positions are those with more than a half."""

    @property
    def least(self) -> float:
        """The least overlap that passes: that of boxes of one object; for a map the mean overlap of boxes.

        A map holds all objects of a class. If fewer than :data:`FEWEST` positions changed, the overlap of one object is
        asked.
        """
        changed = round(self.kept / self.overlap) - self.kept if self.overlap else self.places
        return LEAST_OVERLAP if self.is_map and changed >= FEWEST else SAME_OBJECT

    @property
    def is_lost(self) -> bool:
        """Whether the class is lost: boxes that overlap as little are not of the same object."""
        return self.overlap < self.least

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        record = {"number": self.number, "places": self.places, "kept": self.kept, "overlap": self.overlap}
        return {**record, "told": self.is_known, **({"is_map": True} if self.is_map else {})}

    def __str__(self) -> str:
        return (
            f"{'map' if self.is_map else 'class'} {self.number} is kept at {self.kept} of its {self.places} places "
            f"(overlap {self.overlap:.2f}, at least {self.least:.2g})"
        )


def overlaps(
    in_reference: Mapping[int, int], in_built: Mapping[int, int], in_both: Mapping[int, int], is_known: bool
) -> Iterator[ClassAccuracy]:
    """Yields the overlap of the positions of each class that has at least :data:`FEWEST` of them in the original."""
    for number, places in in_reference.items():
        if places >= FEWEST:
            kept = in_both.get(number, 0)
            overlap = kept / (places + in_built.get(number, 0) - kept)
            yield ClassAccuracy(number, places, kept, overlap, is_known)
