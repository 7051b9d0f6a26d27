"""Boxes that a detector finds: which of them two models find both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONFIDENT = 0.25
"""The score from which on a box counts, as detectors' own tools have it (Ultralytics' ``conf``)."""
DOUBTFUL = CONFIDENT / 2
"""The score from which on a box may be the other model's: one of 0.26 that becomes 0.24 was found by both."""
SAME_OBJECT = 0.5
"""The overlap from which on two boxes are of one object (PASCAL VOC)."""
MOST_BEFORE = 1000
MOST_AFTER = 300
"""How many boxes with the largest scores are kept before and after suppression (COCO counts 100 a picture)."""


@dataclass(frozen=True)
class Boxes:
    """What was found in one sample."""

    corners: np.ndarray
    """(n, 4) float64: left, top, right, bottom, in whatever unit."""
    scores: np.ndarray
    """(n,) 0 to 1."""
    classes: np.ndarray
    """(n,) integers."""
    beside: np.ndarray | None = None
    """(n, columns): what else is told of each; None where that is nothing."""
    known_classes: int | None = None
    """Of how many classes a box may be; None where the outputs do not tell."""

    def __len__(self) -> int:
        return len(self.scores)

    def at(self, places: np.ndarray) -> Boxes:
        """Those at these places."""
        beside = None if self.beside is None else self.beside[places]
        return Boxes(self.corners[places], self.scores[places], self.classes[places], beside, self.known_classes)

    def without_weak(self, least: float = DOUBTFUL) -> Boxes:
        """Those with such a score or more, the largest first; one without an area shows nothing."""
        order = np.argsort(-self.scores, kind="stable")
        counts = (self.scores >= least) & (self.corners[:, 2:] > self.corners[:, :2]).all(axis=1)
        return self.at(order[counts[order]][:MOST_BEFORE])

    def suppressed(self, least: float = DOUBTFUL, most: float = SAME_OBJECT) -> Boxes:
        """Of boxes of a class that overlap by more than ``most`` the one with the largest score.

        Non-maximum suppression, greedy and by class.

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
    """Intersection over union of boxes in the same place: corners (..., 4) each, broadcast, to (...)."""
    low, high = np.maximum(one[..., :2], other[..., :2]), np.minimum(one[..., 2:], other[..., 2:])
    shared = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [np.clip(each[..., 2:] - each[..., :2], 0, None).prod(axis=-1) for each in (one, other)]
    union = areas[0] + areas[1] - shared
    shares: np.ndarray = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def partners(one: Boxes, other: Boxes) -> tuple[int, list[tuple[int, int, float]]]:
    """Which of the boxes that count the other model has too.

    A box has a partner where one of its class overlaps it by :data:`SAME_OBJECT`, each being that of one box only.

    Args:
        one: Boxes of a model, the largest score first.
        other: Boxes of the other one.

    Returns:
        How many boxes of ``one`` count; of these that have a partner the place, the partner's place, and the overlap.
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
