"""What a detector tells of each box beside its class: key points, coefficients of a mask, the angle of a turned box.

That two models both find a box says nothing of these numbers. Key points are near by the object keypoint similarity of
COCO (https://cocodataset.org/#keypoints-eval): the mean of ``exp(-d² / (2 s² k²))`` over the points of a box, with the
distance ``d`` of a point in the two models and the object's area ``s²``, which is 0.53 of the box's area on average
(Ultralytics, ``kpt_iou``). ``k`` is twice the standard deviation of people who place the same point: 0.067 on average
over the 17 points of COCO. Other numbers are near if their differences are small against their variance over all rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from edgekit.comparison.boxes.matching import Boxes
from edgekit.comparison.embeddings.angles import LEAST_EXPLAINED

AREA_OF_BOX = 0.53
POINT_DEVIATION = 0.067
VISIBLE = 0.5
"""The confidence from which on a point of the original counts; a built model has a point from half of it on."""
LEAST_SIMILARITY = 0.75
"""The least mean similarity of key points, the same share as boxes have to overlap by."""
INSIDE = 0.9
"""Pairs of numbers are points if at least this share of them lies in the box, or up to half its size beside it."""
REACH = 1.0
"""How far from the middle of a box its points lie at most, in sizes of the box."""

Kind = Literal["key points", "angle", "numbers"]


@dataclass(frozen=True)
class AttributeAccuracy:
    """How near the further numbers are of the boxes that both models find."""

    kind: Kind
    columns: int
    """How many further numbers a box has."""
    boxes: int
    """How many boxes were compared."""
    kept: float
    """For key points the mean similarity, 0 to 1; for other kinds 1 - power of the difference / variance."""

    @property
    def least(self) -> float:
        """The least :attr:`kept` that passes."""
        return LEAST_SIMILARITY if self.kind == "key points" else LEAST_EXPLAINED

    @property
    def flaw(self) -> str | None:
        """Which floor is missed, in words; None if enough is kept."""
        return None if self.kept >= self.least else f"boxes of both models: {self} (at least {self.least})"

    @property
    def named(self) -> str:
        """What the numbers are, in words."""
        if self.kind == "numbers":
            return f"{self.columns} other numbers"
        return self.kind if self.kind == "key points" else "angles"

    def __str__(self) -> str:
        if self.kind == "key points":
            return f"key points alike by {self.kept:.2f} on average"
        return f"{max(self.kept, 0.0):.2f} of the variance of their {self.named} kept"

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)


class AttributeTally:
    """Gathers a :class:`AttributeAccuracy`."""

    def __init__(self) -> None:
        self._corners: list[np.ndarray] = []
        self._reference: list[np.ndarray] = []
        self._built: list[np.ndarray] = []
        self._rows = 0
        self._sum = self._squares = np.zeros(0)

    def add(self, reference: Boxes, built: Boxes, pairs: list[tuple[int, int]], rows: np.ndarray) -> None:
        """Takes the boxes of one more sample.

        Args:
            reference: The original's boxes.
            built: The built model's boxes.
            pairs: For each box that both find, its index in ``reference`` and in ``built``.
            rows: (rows, columns): the original's numbers of all rows.
        """
        if reference.beside is None or built.beside is None:
            return
        ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
        self._corners.append(reference.corners[ours])
        self._reference.append(reference.beside[ours])
        self._built.append(built.beside[theirs])
        self._sum = rows.sum(axis=0) + (self._sum if self._rows else 0)
        self._squares = np.square(rows).sum(axis=0) + (self._squares if self._rows else 0)
        self._rows += len(rows)

    def result(self) -> AttributeAccuracy | None:
        """Returns the figures so far, or None if no box is found by both models, or none has further numbers."""
        if not self._rows or not sum(map(len, self._corners)):
            return None
        corners, reference, built = map(np.concatenate, (self._corners, self._reference, self._built))
        columns = reference.shape[1]
        for step in (3, 2):
            similarities = _similarities(corners, reference, built, step)
            if similarities is not None:
                kept = float(similarities.mean()) if len(similarities) else 1.0
                return AttributeAccuracy("key points", columns, len(corners), kept)
        variance = self._squares / self._rows - np.square(self._sum / self._rows)
        differences = built - reference
        is_angle = columns == 1 and float(np.abs(reference).max()) <= np.pi
        if is_angle:  # a box that is turned by half a turn is the same
            differences = (differences + np.pi / 2) % np.pi - np.pi / 2
        noise = np.square(differences).mean(axis=0)
        shares = np.divide(noise, variance, out=(noise > 0).astype(np.float64), where=variance > 0)
        return AttributeAccuracy("angle" if is_angle else "numbers", columns, len(corners), 1 - float(shares.mean()))


def _similarities(corners: np.ndarray, reference: np.ndarray, built: np.ndarray, step: int) -> np.ndarray | None:
    """Returns the similarity of the points of each box that shows any, or None if the numbers are no points.

    Args:
        corners: (boxes, 4) of the original.
        reference: (boxes, columns): x and y, and a confidence where ``step`` is 3.
        built: The same of the built model.
        step: How many numbers a point has.
    """
    boxes, columns = reference.shape
    if columns % step or columns < 2 * step:
        return None
    ours, theirs = (each.reshape(boxes, -1, step) for each in (reference, built))
    shown = np.ones(ours.shape[:2], bool) if step == 2 else ours[..., 2] >= VISIBLE
    if step == 3 and not ((ours[..., 2] >= 0) & (ours[..., 2] <= 1)).all():
        return None
    middle, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    away = np.abs(ours[..., :2] - middle[:, None]) / np.maximum(size, np.finfo(float).tiny)[:, None]
    if not shown.any() or (away.max(axis=2)[shown] <= REACH).mean() < INSIDE:
        return None
    area = AREA_OF_BOX * size.prod(axis=1)[:, None]
    distances = np.square(ours[..., :2] - theirs[..., :2]).sum(axis=2)
    alike = np.exp(-distances / (2 * area * (2 * POINT_DEVIATION) ** 2))
    if step == 3:
        alike = np.where(theirs[..., 2] >= VISIBLE / 2, alike, 0.0)
    counted = shown.sum(axis=1)
    found: np.ndarray = (alike * shown).sum(axis=1)[counted > 0] / counted[counted > 0]
    return found
