"""Finds where a detector's boxes lie by showing it mirrored pictures, if shapes and numbers do not tell.

A box of a picture that is mirrored left to right lies mirrored in x and stays where it is in y. TensorFlow's detectors
put y first, others x; distances begin at the corner of a grid's cell, or in its middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgekit.comparison.boxes.matching import Boxes, partners
from edgekit.comparison.boxes.reading import Detector, OnGrids, Rows
from edgekit.features.declared_outputs import Order
from edgekit.model import Arrays, ValueSpec

ORIGINS = (0.0, 0.5)
"""The corner of a cell and its middle, as shares of its side."""
CLEARLY = 2
"""One order is chosen if more than this many times as many boxes lie where it puts them as with the other order."""


Mirrored = Iterable[tuple[Arrays, Arrays, float]]
"""For each sample the model's answer, its answer to the mirrored picture, and the picture's width in pixels."""


def mirrored_answers(
    detector: Detector,
    shown: Sequence[Mapping[str, np.ndarray]],
    answers: Sequence[Arrays],
    run: Callable[[Mapping[str, np.ndarray]], Arrays],
    picture: ValueSpec,
) -> Iterator[tuple[Arrays, Arrays, float]]:
    """Runs a model on pictures mirrored left to right, for the samples in which boxes are found.

    Args:
        detector: How the model's boxes are read.
        shown: Inputs of a few samples.
        answers: The model's outputs on them.
        run: Executes the model.
        picture: The input that is the picture, (1, channels, height, width) or (1, height, width, channels).

    Yields:
        See :data:`Mirrored`.
    """
    axis = 3 if picture.shape is not None and picture.shape[1] in (1, 3) else 2
    for feeds, answer in zip(shown, answers, strict=True):
        if len(detector.read(answer)):
            pixels = feeds[picture.name]
            mirrored = run({**feeds, picture.name: np.ascontiguousarray(np.flip(pixels, axis))})
            yield answer, mirrored, float(pixels.shape[axis])


def with_order(detector: Rows, mirrored: Mirrored) -> Rows:
    """Returns the detector with its order of coordinates; unchanged if the order is known, or cannot be seen."""
    if detector.order is not None:
        return detector
    found: dict[Order, int] = {"xy": 0, "yx": 0}
    for answer, turned, width in mirrored:
        boxes, others = detector.read(answer), detector.read(turned)
        for order in found:
            placed = _mirrored(boxes, 0 if order == "xy" else 1, 1.0 if detector.are_shares else width)
            found[order] += len(partners(placed, others)[1])
    order, other = sorted(found, key=lambda each: -found[each])
    return replace(detector, order=order) if found[order] > CLEARLY * found[other] else detector


def with_origin(detector: OnGrids, mirrored: Mirrored) -> OnGrids:
    """Returns the detector with the place in a cell where distances begin: the corner if nothing shows it."""
    if not detector.are_distances:
        return detector
    forms = [replace(detector, origin=origin) for origin in ORIGINS]
    overlaps = [0.0 for _ in forms]
    for answer, turned, width in mirrored:
        for place, form in enumerate(forms):
            pairs = partners(_mirrored(form.read(answer), 0, width), form.read(turned))[1]
            overlaps[place] += sum(overlap for _, _, overlap in pairs)
    return forms[int(np.argmax(overlaps))]


def _mirrored(boxes: Boxes, axis: int, width: float) -> Boxes:
    """The boxes where x, the coordinate at ``axis``, is counted from the right."""
    corners = boxes.corners.copy()
    corners[:, [axis, axis + 2]] = width - boxes.corners[:, [axis + 2, axis]]
    return replace(boxes, corners=corners)
