"""Boxes that a detector finds, and which of them two models both find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONFIDENT = 0.25
"""The score from which on a box counts, as detectors' own tools have it (Ultralytics' ``conf``)."""
DOUBTFUL = CONFIDENT / 2
"""The score from which on a box may match the other model's: one whose 0.26 becomes 0.24 is found by both."""
SAME_OBJECT = 0.5
"""The overlap from which on two boxes are of one object (PASCAL VOC)."""
MOST_BEFORE = 1000
MOST_AFTER = 300
"""How many boxes with the largest scores are kept before and after suppression (COCO counts 100 a picture)."""


@dataclass(frozen=True)
class Boxes:
    """The boxes that were found in one sample."""

    corners: np.ndarray
    """(n, 4) float64: left, top, right, bottom, in whatever unit."""
    scores: np.ndarray
    """(n,) 0 to 1."""
    classes: np.ndarray
    """(n,) integers."""
    beside: np.ndarray | None = None
    """(n, columns): further numbers of each box; None if there are none."""
    known_classes: int | None = None
    """How many classes there are; None if the outputs do not show that."""

    def __len__(self) -> int:
        return len(self.scores)

    def at(self, places: np.ndarray) -> Boxes:
        """Returns the boxes at the given indices."""
        beside = None if self.beside is None else self.beside[places]
        return Boxes(self.corners[places], self.scores[places], self.classes[places], beside, self.known_classes)

    def without_weak(self, least: float = DOUBTFUL) -> Boxes:
        """Returns the boxes that have an area and a score of at least ``least``, the largest score first."""
        order = np.argsort(-self.scores, kind="stable")
        counts = (self.scores >= least) & (self.corners[:, 2:] > self.corners[:, :2]).all(axis=1)
        return self.at(order[counts[order]][:MOST_BEFORE])

    def suppressed(self, least: float = DOUBTFUL, most: float = SAME_OBJECT) -> Boxes:
        """Returns, of boxes of a class that overlap by more than ``most``, the one with the largest score.

        Args:
            least: The score from which on a box counts.
            most: Intersection over union.
        """
        left = self.without_weak(least)
        overlaps = overlap(left.corners, left.corners) > most
        overlaps &= left.classes[:, None] == left.classes[None]
        gone = np.zeros(len(left), bool)
        for place in range(len(left)):
            if not gone[place]:
                gone[place + 1 :] |= overlaps[place, place + 1 :]
        return left.at(np.flatnonzero(~gone)[:MOST_AFTER])


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union of every box with every other: corners (n, 4) and (m, 4) to (n, m)."""
    return overlap_by_row(one[:, None], other[None])


def overlap_by_row(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes with the same index: corners (..., 4) each, broadcast, to (...)."""
    low, high = np.maximum(one[..., :2], other[..., :2]), np.minimum(one[..., 2:], other[..., 2:])
    shared = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [np.clip(each[..., 2:] - each[..., :2], 0, None).prod(axis=-1) for each in (one, other)]
    union = areas[0] + areas[1] - shared
    shares: np.ndarray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def partners(one: Boxes, other: Boxes) -> tuple[int, list[tuple[int, int, float]]]:
    """Returns which of one model's boxes that count the other model has, too.

    The partner of a box is a box of the same class that overlaps it by :data:`SAME_OBJECT`; no two boxes share a
    partner.

    Args:
        one: Boxes of a model, the largest score first.
        other: Boxes of the other model.

    Returns:
        How many boxes of ``one`` count; and for each of them with a partner its index, the partner's index, and the
        overlap.
    """
    overlaps = overlap(one.corners, other.corners) * (one.classes[:, None] == other.classes[None])
    counted, found = 0, []
    for place, (row, score) in enumerate(zip(overlaps, one.scores, strict=True)):
        if score < CONFIDENT:
            continue
        counted += 1
        if row.size and (best := int(row.argmax())) >= 0 and row[best] >= SAME_OBJECT:
            found.append((place, best, float(row[best])))
            overlaps[:, best] = 0
    return counted, found
