"""What the columns of a table may be, by their numbers: scores, classes, shares, or corners of boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit.comparison.boxes.matching import CONFIDENT
from edgekit.comparison.boxes.reading import CORNERS, table_of
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays

MOST_CONFIDENT = 0.3
"""Of how many rows at most a detector is confident before suppression."""
LEAST_AT_ANCHORS = 0.9
"""Of how many rows the box lies over its anchor where an app holds the anchors."""
LEAST_BEFORE_ANCHORS = 0.1
"""Of how many of these the centre lies to the left of its anchor, and of how many above it."""
SLACK = 1e-3
"""What scores may lie outside of 0 to 1, and sizes below 0 as a share of the largest coordinate."""
NEARLY_ALL = 0.99
MOST_OFF_ONE = 1e-2
LEAST_OF_SHARES = 0.9
"""What is left of shares that add up to one when small ones are rounded off."""


def tables_of(answers: Sequence[Arrays]) -> dict[str, list[np.ndarray]]:
    """The floating-point outputs that are tables with rows in them and as many columns, by name, of all samples."""
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
    """Whether rows or columns add up to one, as what Softmax gives: a class each, and no box.

    Where the sums are quantized, small shares are rounded off: rows add up to less then, most of them a little.
    """
    sums = (table.sum(axis=axis) for axis in (0, 1))
    return any(bool((each < 1 + MOST_OFF_ONE).all() and np.median(each) > LEAST_OF_SHARES) for each in sums)


def are_corners(tables: Sequence[np.ndarray], declared: DeclaredOutputs) -> bool | None:
    """Whether four columns are corners; False for centre and size, None where they are neither."""
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
    """Whether (n, 4) are centre and size beside an anchor: nearly all boxes hold the point 0, from either side.

    Of boxes in a picture only those in its corner do.
    """
    hold = (np.abs(numbers[:, :2]) <= numbers[:, 2:] / 2).all(axis=1).mean() > LEAST_AT_ANCHORS
    return bool(hold and ((numbers[:, :2] < 0).mean(axis=0) > LEAST_BEFORE_ANCHORS).all())


def is_map(table: np.ndarray, size: tuple[int, int]) -> bool:
    """Whether there is a number for each pixel of the picture, or of one with a fraction of its height and width."""
    (height, more), (width, beyond) = (divmod(whole, part) for whole, part in zip(size, table.shape, strict=True))
    return height == width and not (more or beyond)


def is_turned(tables: Sequence[np.ndarray], classes: int | None) -> bool:
    """Whether a column is a box: as the number of classes tells, else where there are more columns than rows.

    Tables of as many columns, a sample each: where one has more rows than another, a row is a box.
    """
    table = tables[0]
    if any(len(other) != len(table) for other in tables):
        return False
    for turned, width in enumerate(table.shape[::-1]):
        if width - CORNERS in widths(classes):
            return bool(turned)
    return bool(table.shape[0] < table.shape[1])


def widths(classes: int | None) -> tuple[int, ...]:
    """How many columns stand behind a box where so many classes are known."""
    return () if classes is None else (classes, 1 + classes)


def columns_of_scores(tables: Sequence[np.ndarray]) -> int:
    """How many columns behind the box hold shares, in all samples."""
    low = np.min([each.min(axis=0) for each in tables], axis=0)[CORNERS:]
    high = np.max([each.max(axis=0) for each in tables], axis=0)[CORNERS:]
    fits = (low >= -SLACK) & (high <= 1 + SLACK)
    return len(fits) if fits.all() else int(fits.argmin())


def background_of(scores: Sequence[np.ndarray]) -> int | None:
    """The class that most rows belong to; None where there is none."""
    numbers = np.concatenate(scores)
    if numbers.shape[1] < 2:
        return None
    best = np.bincount(numbers.argmax(axis=1)[numbers.max(axis=1) > 0.5], minlength=numbers.shape[1])
    return int(best.argmax()) if best.max() > 0.5 * len(numbers) else None
