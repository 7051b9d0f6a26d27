"""What the columns of a table may be, by their numbers: scores, classes, shares, or corners of boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit.comparison.boxes.matching import CONFIDENT
from edgekit.comparison.boxes.reading import CORNERS, table_of
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays

MOST_CONFIDENT = 0.3
"""The largest share of rows with a confident score before suppression."""
LEAST_AT_ANCHORS = 0.9
"""If the app holds the anchors, boxes lie over their anchors in more than this share of the rows."""
LEAST_BEFORE_ANCHORS = 0.1
"""If the app holds the anchors, more than this share of the centers lies left of the anchor, and more than this
above."""
SLACK = 1e-3
"""How far scores may lie outside of 0 to 1, and sizes below 0 as a share of the largest coordinate."""
NEARLY_ALL = 0.99
MOST_OFF_ONE = 1e-2
LEAST_OF_SHARES = 0.9
"""The least median of sums of probabilities of which quantization rounds small ones to 0."""


def tables_of(answers: Sequence[Arrays]) -> dict[str, list[np.ndarray]]:
    """Returns the floating-point outputs, by name, that are tables with rows and the same columns in all samples."""
    floats = [name for name, array in answers[0].items() if array.dtype.kind == "f"]
    found = {name: [table_of(answer[name]) for answer in answers] for name in floats}
    return {
        name: tables
        for name, tables in found.items()
        if {table.ndim for table in tables} == {2} and all(table.size for table in tables)
        if len({table.shape[1] for table in tables}) == 1
    }


def is_sparse(scores: Sequence[np.ndarray]) -> bool:
    """Whether few rows are confident, and some are, in all samples together."""
    return 0 < share_of_confident(scores) <= MOST_CONFIDENT


def share_of_confident(scores: Sequence[np.ndarray]) -> float:
    """The share of rows, of all samples together, that have a confident score."""
    return float(np.concatenate([each.max(axis=1) >= CONFIDENT for each in scores]).mean())


def are_scores(numbers: np.ndarray) -> bool:
    """Whether all numbers lie from 0 to 1."""
    return bool(((numbers >= -SLACK) & (numbers <= 1 + SLACK)).all())


def are_classes(numbers: np.ndarray) -> bool:
    """Whether all numbers are indices of classes, or -1."""
    return bool((numbers == np.round(numbers)).all() and numbers.min(initial=0) >= -1)


def are_shares(table: np.ndarray) -> bool:
    """Whether rows or columns add up to one, as Softmax gives them: probabilities of classes, and no boxes.

    If the numbers are quantized, small probabilities are rounded to 0, so that most rows add up to a little less.
    """
    sums = (table.sum(axis=axis) for axis in (0, 1))
    return any(bool((each < 1 + MOST_OFF_ONE).all() and np.median(each) > LEAST_OF_SHARES) for each in sums)


def are_corners(tables: Sequence[np.ndarray], declared: DeclaredOutputs) -> bool | None:
    """Whether four columns are corners; False if they are center and size, None if they are neither."""
    if declared.coordinates is not None:
        return declared.coordinates == "corners"
    numbers = np.concatenate(tables)
    if not np.isfinite(numbers).all() or (np.ptp(numbers, axis=0) == 0).any() or _surround_nought(numbers):
        return None
    least = -SLACK * np.abs(numbers).max()
    if (numbers[:, 2:] - numbers[:, :2] >= least).mean() > NEARLY_ALL:
        return True
    return False if (numbers[:, 2:] >= least).mean() > NEARLY_ALL else None


def _surround_nought(numbers: np.ndarray) -> bool:
    """Whether (n, 4) are center and size relative to an anchor: nearly all boxes hold the point 0, from either side.

    Of boxes in a picture only those in its corner hold the point 0.
    """
    hold = (np.abs(numbers[:, :2]) <= numbers[:, 2:] / 2).all(axis=1).mean() > LEAST_AT_ANCHORS
    return bool(hold and ((numbers[:, :2] < 0).mean(axis=0) > LEAST_BEFORE_ANCHORS).all())


def is_map(table: np.ndarray, size: tuple[int, int]) -> bool:
    """Whether a table has a number for each pixel of the picture, or of the picture reduced by a whole factor."""
    (height, more), (width, beyond) = (divmod(whole, part) for whole, part in zip(size, table.shape, strict=True))
    return height == width and not (more or beyond)


def is_turned(tables: Sequence[np.ndarray], classes: int | None) -> bool:
    """Whether a column is a box: as the number of classes shows, else if there are more columns than rows.

    Each sample has a table with the same number of columns. If the numbers of rows differ, a row is a box.
    """
    table = tables[0]
    if any(len(other) != len(table) for other in tables):
        return False
    for turned, width in enumerate(table.shape[::-1]):
        if width - CORNERS in widths(classes):
            return bool(turned)
    return bool(table.shape[0] < table.shape[1])


def widths(classes: int | None) -> tuple[int, ...]:
    """Returns how many columns of scores may follow a box; empty if the number of classes is unknown."""
    return () if classes is None else (classes, 1 + classes)


def columns_of_scores(tables: Sequence[np.ndarray]) -> int:
    """Returns how many columns behind the box, up to the first other column, lie from 0 to 1 in all samples."""
    low = np.min([each.min(axis=0) for each in tables], axis=0)[CORNERS:]
    high = np.max([each.max(axis=0) for each in tables], axis=0)[CORNERS:]
    fits = (low >= -SLACK) & (high <= 1 + SLACK)
    return len(fits) if fits.all() else int(fits.argmin())


def background_of(scores: Sequence[np.ndarray]) -> int | None:
    """Returns the class that most rows belong to with a score above 0.5, or None if there is none."""
    numbers = np.concatenate(scores)
    if numbers.shape[1] < 2:
        return None
    best = np.bincount(numbers.argmax(axis=1)[numbers.max(axis=1) > 0.5], minlength=numbers.shape[1])
    return int(best.argmax()) if best.max() > 0.5 * len(numbers) else None
