"""Which coordinate of a detector's boxes comes first, seen by showing it mirrored pictures.

A box of a picture mirrored left to right lies mirrored in x and stays where it is in y. TensorFlow's detectors put y
first, others x, and nothing in shapes and numbers tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgekit.comparison.box_reading import Rows
from edgekit.comparison.boxes import Boxes, partners
from edgekit.features.declared_outputs import Order
from edgekit.model import Arrays, ValueSpec

CLEARLY = 2
"""How many times as many boxes as of the other order have to lie where one of the orders puts them."""


def with_order(
    detector: Rows,
    shown: Sequence[Mapping[str, np.ndarray]],
    answers: Sequence[Arrays],
    run: Callable[[Mapping[str, np.ndarray]], Arrays],
    picture: ValueSpec,
) -> Rows:
    """The detector with its order of coordinates; as it is where that is known, or cannot be seen.

    Args:
        detector: How its boxes are read.
        shown: Inputs of a few samples.
        answers: The model's outputs on them.
        run: Executes the model.
        picture: The input that is the picture, (1, channels, height, width) or (1, height, width, channels).
    """
    if detector.order is not None:
        return detector
    axis = 3 if picture.shape is not None and picture.shape[1] in (1, 3) else 2
    found: dict[Order, int] = {"xy": 0, "yx": 0}
    for feeds, answer in zip(shown, answers, strict=True):
        boxes = detector.read(answer)
        if not len(boxes):
            continue
        pixels = feeds[picture.name]
        mirrored = detector.read(run({**feeds, picture.name: np.ascontiguousarray(np.flip(pixels, axis))}))
        width = 1.0 if detector.are_shares else float(pixels.shape[axis])
        for order in found:
            found[order] += len(partners(_mirrored(boxes, 0 if order == "xy" else 1, width), mirrored)[1])
    order, other = sorted(found, key=lambda each: -found[each])
    return replace(detector, order=order) if found[order] > CLEARLY * found[other] else detector


def _mirrored(boxes: Boxes, axis: int, width: float) -> Boxes:
    """The boxes where x, the coordinate at ``axis``, is counted from the right."""
    corners = boxes.corners.copy()
    corners[:, [axis, axis + 2]] = width - boxes.corners[:, [axis + 2, axis]]
    return replace(boxes, corners=corners)
