"""Detectors whose anchors the app holds: offsets and scores of every anchor, without the places of the anchors.

What is known:

- a table with four or more offsets for each anchor, and a table with the anchor's scores (SSD: Liu et al., 2016,
  arXiv:1512.02325; RetinaFace, MediaPipe); further tables with a row for each anchor hold more about it, such as key
  points;
- maps of two or more grids of the picture (:mod:`edgekit.comparison.boxes.anchor_maps`).

These numbers do not place a box in the picture. But if sizes are in the unit of the offsets (MediaPipe), two models'
boxes of one anchor overlap equally wherever the anchor lies. Other offsets are shares of the anchor's size, and sizes
are logarithms of such shares, both scaled by factors that the app holds (SSD's variances). An anchor is trained to find
objects that it overlaps by about a half: its box is moved by at most half its size, and is at most twice or half as
large. The largest factors with which this holds for confident anchors are used: they make errors look large rather than
small.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from edgekit.comparison.boxes.anchor_maps import maps_of_grids
from edgekit.comparison.boxes.detectors import FEWEST_ROWS, UNDECLARED, picture_among, scored, size_of
from edgekit.comparison.boxes.matching import CONFIDENT, DOUBTFUL, SAME_OBJECT, Boxes, overlap_by_row
from edgekit.comparison.boxes.reading import CORNERS, LARGEST_EXPONENT, Columns, Reading, Rows, best_class, corners_of
from edgekit.comparison.boxes.tables import (
    MOST_CONFIDENT,
    are_corners,
    are_scores,
    are_shares,
    is_sparse,
    share_of_confident,
    tables_of,
)
from edgekit.model import Arrays, ValueSpec

FARTHEST = 0.5
"""How far a box is moved at most from the anchor that finds it, as a share of its size."""
LARGEST_GROWTH = math.log(2)
"""The logarithm of how many times as large as the anchor that finds it a box is at most."""
LARGEST_WIDTH = 64
"""Rows with key points have fewer numbers than this."""
PLACES, SIZES = (slice(2), FARTHEST), (slice(2, CORNERS), LARGEST_GROWTH)
"""The columns of offsets and of sizes, each with the largest number that needs no factor."""


class AnchorReading(Reading, Protocol):
    """How anchors are read from outputs."""

    def read(self, outputs: Arrays) -> Boxes:
        """Returns the boxes of all anchors of a sample, each relative to its own anchor."""


@dataclass(frozen=True)
class AnchorRows:
    """Outputs with a row for each anchor, of offsets and of scores; or such outputs for each of several grids."""

    grids: tuple[Rows, ...]
    """How offsets of boxes and scores are read."""
    others: tuple[tuple[Columns, ...], ...]
    """The columns of further numbers of each anchor, the same ones for each grid."""
    factors: tuple[float, float] | None = None
    """The factors of offsets and of the logarithms of sizes; None if sizes are no logarithms."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`AnchorReading`."""
        return tuple(dict.fromkeys((*(name for grid in self.grids for name in grid.outputs), *self.placing)))

    @property
    def placing(self) -> tuple[str, ...]:
        """See :class:`AnchorReading`."""
        others = (each.output for grid in self.others for each in grid)
        return tuple(dict.fromkeys((*(grid.coordinates.output for grid in self.grids), *others)))

    @property
    def read_as(self) -> str:
        """See :class:`AnchorReading`."""
        count = self.grids[0].scores.count - (self.grids[0].background is not None)
        return f"offsets and {count} class{'es' if count != 1 else ''} of anchors that the app holds"

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`AnchorReading`."""
        offsets = np.concatenate([grid.coordinates.of(outputs) for grid in self.grids])
        centres, sizes = offsets[:, :2], offsets[:, 2:]
        if self.factors is not None:
            growth = np.clip(sizes * self.factors[1], -LARGEST_EXPONENT, LARGEST_EXPONENT)
            centres, sizes = centres * self.factors[0], np.exp(growth)
        boxes = best_class(
            corners_of(centres, sizes), np.concatenate([grid.all_scores(outputs) for grid in self.grids])
        )
        beside = [np.hstack([each.of(outputs) for each in others]) for others in self.others if others]
        return replace(boxes, beside=np.concatenate(beside)) if beside else boxes

    def measured(self, answers: Sequence[Arrays]) -> AnchorRows:
        """Returns the reading with the factors that confident anchors show."""
        offsets_by_output = [
            grid.coordinates.of(answer)[grid.all_scores(answer).max(axis=1) >= CONFIDENT]
            for answer in answers
            for grid in self.grids
        ]
        confident = np.abs(offsets := np.concatenate(offsets_by_output))
        if (offsets[:, 2:] > 0).all() and (confident[:, :2] <= offsets[:, 2:]).all():
            return self
        shift, growth = (max(float(confident[:, at].max()), limit) for at, limit in (PLACES, SIZES))
        return replace(self, factors=(FARTHEST / shift, LARGEST_GROWTH / growth))


def anchors_of_both(one: Boxes, other: Boxes) -> tuple[int, list[tuple[int, int, float]]]:
    """Returns which of one model's anchors that count the other model has, too.

    See :func:`edgekit.comparison.boxes.matching.partners`.

    Args:
        one: The boxes of all anchors of a model.
        other: The boxes of all anchors of the other model.

    Returns:
        How many anchors of ``one`` count; and for each of them that the other model has, too, its index, twice, and the
        overlap.
    """
    counted = np.flatnonzero(one.scores >= CONFIDENT)
    ours, theirs = one.at(counted), other.at(counted)
    overlaps = overlap_by_row(ours.corners, theirs.corners)
    found = (theirs.scores >= DOUBTFUL) & (ours.classes == theirs.classes) & (overlaps >= SAME_OBJECT)
    return len(counted), [
        (int(at), int(at), float(share)) for at, share in zip(counted[found], overlaps[found], strict=True)
    ]


def anchors_among(answers: Sequence[Arrays], inputs: Sequence[ValueSpec]) -> AnchorReading | None:
    """Returns how anchors are read from the outputs of a model with one picture as its input, or None without anchors.

    Args:
        answers: The model's outputs on a few samples, of equal shapes.
        inputs: The model's inputs.
    """
    picture = picture_among(inputs)
    if picture is None or not answers:
        return None
    return _anchor_rows(answers) or maps_of_grids(answers, size_of(picture))


def _anchor_rows(answers: Sequence[Arrays]) -> AnchorRows | None:
    """Finds rows of scores, few of them confident, beside rows of four numbers that are no boxes themselves.

    Pairs of numbers, key points, may follow the four; then each row has a single score (MediaPipe).
    """
    by_rows: dict[int, dict[str, list[np.ndarray]]] = defaultdict(dict)
    for name, found in tables_of(answers).items():
        by_rows[len(found[0])][name] = found
    grids = [grid for group in by_rows.values() if (grid := _grid(group, answers)) is not None]
    if sum(len(shares[0]) for _, _, shares in grids) < FEWEST_ROWS:
        return None
    if len({(rows.scores.count, *(each.count for each in others)) for rows, others, _ in grids}) != 1:
        return None
    if not is_sparse([np.concatenate(shares) for shares in zip(*(shares for _, _, shares in grids), strict=True)]):
        return None
    return AnchorRows(tuple(rows for rows, _, _ in grids), tuple(others for _, others, _ in grids)).measured(answers)


def _grid(
    group: Mapping[str, Sequence[np.ndarray]], answers: Sequence[Arrays]
) -> tuple[Rows, tuple[Columns, ...], list[np.ndarray]] | None:
    """Returns how tables with equally many rows are read, their further columns and all samples' scores, or None."""
    by_likelihood = sorted(group, key=lambda name: not all(map(are_scores, group[name])))
    for name, found in group.items():
        width = found[0].shape[1]
        if width not in range(CORNERS, LARGEST_WIDTH, 2) or any(map(are_shares, found)):
            continue
        if are_corners([each[:, :CORNERS] for each in found], UNDECLARED) is not None:
            continue
        for other in by_likelihood:
            if other == name or (width > CORNERS and group[other][0].shape[1] > 1):
                continue
            boxes = Columns(name, width, 0, CORNERS)
            rows, shares = scored(boxes, other, group[other], answers, have_corners=False)
            if shares[0].shape[1] and share_of_confident(shares) <= MOST_CONFIDENT:
                more = [Columns(name, width, CORNERS, width - CORNERS)] if width > CORNERS else []
                widths = {key: tables[0].shape[1] for key, tables in group.items() if key not in (name, other)}
                return rows, (*more, *(Columns(key, n, 0, n) for key, n in widths.items())), shares
    return None
