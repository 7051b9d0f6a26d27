"""Reads a detector's outputs as detections in a picture, in the way that the bundle's manifest states."""

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
    """An object that a detector finds in a picture."""

    label: str
    """The class's name, or its number as a text if the bundle has no names."""
    index: int
    """The class's number, from 0; a background class is not counted."""
    score: float
    """From 0 to 1."""
    box: tuple[float, float, float, float]
    """Left, top, right and bottom in pixels, from the upper left corner: of the picture, and clipped to it; or of the
    model's input if the model got an array."""
    beside: tuple[float, ...] = ()
    """Further values of the object as the output holds them, such as key points in the input's unit."""


def detections(
    outputs: Arrays,
    detector: Detector,
    size: tuple[int, int],
    placement: Placement | None,
    names: Sequence[str],
    score: float = CONFIDENT,
    iou: float = SAME_OBJECT,
) -> list[Detection]:
    """Reads outputs as detections, the largest score first.

    Args:
        outputs: The outputs by name.
        detector: How the outputs are read as boxes.
        size: Height and width of the model's input.
        placement: Where the picture lies in the input; None leaves boxes in pixels of the input.
        names: The classes' names by index, including the background class.
        score: The least score of a detection.
        iou: Of boxes of a class that overlap by more, the one with the largest score is kept; a model that suppresses
            boxes itself uses its own threshold.
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
    """The names of the classes without the background class; empty if their number does not fit the model."""
    if not isinstance(detector, Rows) or detector.classes is not None:
        return list(names)
    count = detector.scores.count
    if detector.background is not None and len(names) == count:
        return [name for number, name in enumerate(names) if number != detector.background]
    return list(names) if len(names) == count - (detector.background is not None) else []
