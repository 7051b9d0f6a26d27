"""Outputs that look like a detector's boxes and are not read as such, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.comparison.boxes.anchors import anchors_among
from edgekit.comparison.boxes.detectors import (
    FEWEST_ROWS,
    UNDECLARED,
    after_suppression,
    in_one,
    picture_among,
    side_by_side,
    size_of,
)
from edgekit.comparison.boxes.matching import CONFIDENT
from edgekit.comparison.boxes.reading import CORNERS, Rows
from edgekit.comparison.boxes.tables import (
    MOST_CONFIDENT,
    are_corners,
    are_scores,
    are_shares,
    is_turned,
    share_of_confident,
    tables_of,
    widths,
)
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, ValueSpec

_NOTHING_FOUND = f"no row has a score of {CONFIDENT} or more"


@dataclass(frozen=True)
class NearMiss:
    """Outputs that look like boxes, and are not read as such."""

    outputs: tuple[str, ...]
    why: str
    """Why the outputs are not read as boxes, in words."""
    found: bool = True
    """Whether an object was found on the samples; if not, outputs that the user names are not read as boxes either."""
    decoded: bool = True
    """Whether boxes can be read from the outputs alone; if not, they are offsets from anchors that the app holds."""

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.outputs)
        looks = f"output{'s' if len(self.outputs) > 1 else ''} {names} look{'' if len(self.outputs) > 1 else 's'} like"
        advice = (
            (
                "export the model with its boxes decoded; until then, the confident anchors are compared in place of "
                "boxes"
            )
            if not self.decoded
            else f"[outputs] boxes = [{names}] in the project file reads boxes from there"
            if self.found
            else "give samples with something to find"
        )
        return (
            f"{looks} a detector's boxes, but no boxes are read, because {self.why}: {advice}; boxes = false under "
            "[outputs] declares that there are none"
        )


def nearly_recognised(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None = None,
    declared: DeclaredOutputs = UNDECLARED,
) -> NearMiss | None:
    """Returns what looks like boxes in a model that is not recognized as a detector, or None if nothing does.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes there are, where that is known.
        declared: What the user declares; the result is None if that concerns boxes or embeddings.
    """
    picture = picture_among(inputs)
    if picture is None or not answers or declared.boxes is not None or declared.embeddings:
        return None
    size, several = size_of(picture), 2
    suppressed = after_suppression(answers, declared)
    if suppressed is not None and not any(len(suppressed.read(answer)) for answer in answers):
        return NearMiss(suppressed.outputs, _NOTHING_FOUND, found=False)
    for detector in (
        in_one(answers, size, classes, declared, several),
        side_by_side(answers, classes, declared, several),
    ):
        if detector is not None and (len(detector.outputs) > 1 or _is_full(detector, classes)):
            found = len(detector.coordinates.of(answers[0]))
            return NearMiss(detector.outputs, f"there are {found} rows (at least {FEWEST_ROWS})")
    for name, tables in tables_of(answers).items():
        turned = is_turned(tables, classes)
        rows = [table.T if turned else table for table in tables]
        count, width = rows[0].shape
        if width - CORNERS not in widths(classes) or count < several or any(map(are_shares, tables)):
            continue
        if classes is not None and _is_full_of_scores(rows, classes):
            confident = share_of_confident([each[:, -classes:] for each in rows])
            if confident == 0:
                return NearMiss((name,), _NOTHING_FOUND, found=False)
            most = f"{MOST_CONFIDENT:.0%}"
            return NearMiss(
                (name,), f"{confident:.0%} of the rows have a score of {CONFIDENT} or more (at most {most})"
            )
    anchors = anchors_among(answers, inputs)
    return None if anchors is None else NearMiss(anchors.outputs, f"they hold {anchors.read_as}", decoded=False)


def _is_full(detector: Rows, classes: int | None) -> bool:
    """Whether all columns behind the boxes of an output are scores."""
    scores = detector.scores
    return classes is not None or scores.first + scores.count == scores.width


def _is_full_of_scores(rows: Sequence[np.ndarray], classes: int) -> bool:
    """Whether the last columns are scores, and the first ones may be boxes."""
    boxes = are_corners([each[:, :CORNERS] for each in rows], UNDECLARED)
    return boxes is not None and all(are_scores(each[:, -classes:]) for each in rows)
