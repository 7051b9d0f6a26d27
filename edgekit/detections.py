"""What a detector's bundle finds in a picture, as its manifest tells how outputs are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.comparison.boxes.matching import CONFIDENT, SAME_OBJECT
from edgekit.comparison.boxes.reading import Detector, Rows
from edgekit.model import Arrays
from edgekit.preprocessing.placement import Placement


@dataclass(frozen=True)
class Detection:
    """Something that a picture shows."""

    label: str
    """The class's name; its number where the bundle has no names."""
    index: int
    """The class's number, from 0; a class that stands for nothing is not counted."""
    score: float
    """From 0 to 1."""
    box: tuple[float, float, float, float]
    """Left, top, right and bottom in pixels, from the upper left corner: of the picture and as far as it lies in it; of
    the model's input where the model got an array."""
    beside: tuple[float, ...] = ()
    """What the model tells of it beside its class, as it stands in the output: key points, say, in the input's unit."""


def detections(
    outputs: Arrays,
    detector: Detector,
    size: tuple[int, int],
    placement: Placement | None,
    names: Sequence[str],
    score: float = CONFIDENT,
    iou: float = SAME_OBJECT,
) -> list[Detection]:
    """What outputs tell, the largest score first.

    Args:
        outputs: By name.
        detector: How they are read.
        size: Height and width of the model's input.
        placement: Where the picture lies in it; None leaves boxes in pixels of the input.
        names: Of the classes by index, with that which stands for nothing.
        score: The least that counts.
        iou: Of boxes of a class that overlap by more, the one with the largest score is kept; a model that suppresses
            boxes itself does so by a number of its own.
    """
    boxes = detector.read(outputs, least=score, overlap=iou)
    corners = boxes.corners
    if isinstance(detector, Rows):
        corners = corners[:, [1, 0, 3, 2]] if detector.order == "yx" else corners
        corners = corners * np.array(size[::-1] * 2) if detector.are_shares else corners
    if placement is not None:
        corners = placement.in_picture(corners)
    known = _without_background(detector, names)
    beside = np.zeros((len(boxes), 0)) if boxes.beside is None else boxes.beside
    return [
        Detection(
            known[kind] if 0 <= kind < len(known) else str(kind),
            kind,
            float(number),
            _four(box),
            tuple(map(float, more)),
        )
        for kind, number, box, more in zip(boxes.classes.tolist(), boxes.scores, corners, beside, strict=True)
        if box[2] > box[0] and box[3] > box[1]
    ]


def _four(box: np.ndarray) -> tuple[float, float, float, float]:
    left, top, right, bottom = map(float, box)
    return left, top, right, bottom


def _without_background(detector: Detector, names: Sequence[str]) -> list[str]:
    """The names of classes that are counted; none where they are not the model's."""
    if not isinstance(detector, Rows) or detector.classes is not None:
        return list(names)
    count = detector.scores.count
    if detector.background is not None and len(names) == count:
        return [name for number, name in enumerate(names) if number != detector.background]
    return list(names) if len(names) == count - (detector.background is not None) else []
