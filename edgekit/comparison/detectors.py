"""Recognises a detector by the shapes and values of its outputs, and reads the boxes that they tell.

What is known, for a model with one picture as its input:

- one output with a row a box and all that is known of it in columns, or the other way round: centre and size, then a
  score a class (YOLOv8, 11), or one that says whether there is anything and then one a class (YOLOv5, 7, X), then more;
- the same after suppression: corners, score and class, or image, class, score and corners (SSD);
- boxes, scores and perhaps classes as outputs of their own, with a row a box (SSD, DETR, torchvision);
- the same, and for each of several grids of the picture: offsets from a cell of the grid (YuNet, SCRFD, FCOS).

A detector finds little in many places: outputs whose scores are large in most rows are something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edgekit.comparison.boxes import CONFIDENT, Boxes
from edgekit.model import Arrays, ValueSpec

CORNERS = 4
FEWEST_ROWS = 100
"""Rows that tell of boxes before suppression."""
ROWS_OF_QUERIES = 1000
"""Detectors with queries (DETR) have fewer rows, and no score that says whether there is anything."""
MOST_CONFIDENT = 0.3
"""Of how many rows at most a detector is confident before suppression."""
STRIDES = (4, 8, 16, 32, 64, 128)
MOST_ANCHORS = 3
SLACK = 1e-3
"""What scores may lie outside of 0 to 1, and sizes below 0 as a share of the largest coordinate."""
NEARLY_ALL = 0.99
MOST_OFF_ONE = 1e-2
LARGEST_EXPONENT = 20.0


class Detector(Protocol):
    """How boxes are read from outputs; can be pickled."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that tell of boxes."""

    @property
    def read_as(self) -> str:
        """What they are, for people."""

    def read(self, outputs: Arrays) -> Boxes:
        """The boxes of a sample, suppressed, the largest score first."""


def recognised(answers: Sequence[Arrays], inputs: Sequence[ValueSpec], classes: int | None = None) -> Detector | None:
    """How the boxes of a model are read; None where it is no detector, as far as can be seen.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes there are, where that is known.
    """
    size = _picture_size(inputs)
    if size is None or not answers:
        return None
    known: tuple[Callable[[], Detector | None], ...] = (
        lambda: _in_one(answers, classes),
        lambda: _after_suppression(answers),
        lambda: _on_grids(answers, size),
        lambda: _side_by_side(answers),
    )
    candidates = (find() for find in known)
    return next((each for each in candidates if each is not None and any(len(each.read(a)) for a in answers)), None)


def _picture_size(inputs: Sequence[ValueSpec]) -> tuple[int, int] | None:
    """Height and width of the only picture among the inputs."""
    sizes = []
    for spec in inputs:
        numbers = [size for size in spec.shape or () if isinstance(size, int)]
        if len(numbers) == len(spec.shape or ()) == 4:
            if numbers[1] in (1, 3):
                sizes.append((numbers[2], numbers[3]))
            elif numbers[3] in (1, 3):
                sizes.append((numbers[1], numbers[2]))
    return sizes[0] if len(sizes) == 1 else None


def _table(array: np.ndarray) -> np.ndarray:
    """An output without the axes of size one in front, float64."""
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    return array.astype(np.float64)


def _tables(answers: Sequence[Arrays]) -> dict[str, list[np.ndarray]]:
    """The floating-point outputs that are tables, by name, those of all samples."""
    names = [name for name, array in answers[0].items() if array.dtype.kind == "f" and _table(array).ndim == 2]
    return {name: [_table(answer[name]) for answer in answers] for name in names}


def _best_class(corners: np.ndarray, scores: np.ndarray) -> Boxes:
    classes = scores.argmax(axis=1)
    return Boxes(corners, scores[np.arange(len(scores)), classes], classes)


def _is_sparse(scores: Sequence[np.ndarray]) -> bool:
    """Whether few rows are confident, and some are, in all samples together."""
    share = float(np.concatenate([each.max(axis=1) >= CONFIDENT for each in scores]).mean())
    return 0 < share <= MOST_CONFIDENT


def _are_scores(numbers: np.ndarray) -> bool:
    return bool(((numbers >= -SLACK) & (numbers <= 1 + SLACK)).all())


def _are_classes(numbers: np.ndarray) -> bool:
    return bool((numbers == np.round(numbers)).all() and numbers.min(initial=0) >= -1)


def _are_shares(table: np.ndarray) -> bool:
    """Whether rows or columns add up to one, as what Softmax gives: a class each, and no box."""
    return any(bool((np.abs(table.sum(axis=axis) - 1) < MOST_OFF_ONE).all()) for axis in (0, 1))


def _have_corners(tables: Sequence[np.ndarray]) -> bool | None:
    """Whether four columns are corners; False for centre and size, None where they are neither."""
    numbers = np.concatenate(tables)
    if not np.isfinite(numbers).all() or (np.ptp(numbers, axis=0) == 0).any():
        return None
    least = -SLACK * np.abs(numbers).max()
    if (numbers[:, 2:] - numbers[:, :2] >= least).mean() > NEARLY_ALL:
        return True
    return False if (numbers[:, 2:] >= least).mean() > NEARLY_ALL else None


def _corners(rows: np.ndarray, *, have_corners: bool) -> np.ndarray:
    if have_corners:
        return rows
    return np.hstack([rows[:, :2] - rows[:, 2:] / 2, rows[:, :2] + rows[:, 2:] / 2])


@dataclass(frozen=True)
class InOne:
    """Boxes before suppression in a single output."""

    name: str
    turned: bool
    """Whether a column is a box."""
    has_objectness: bool
    classes: int
    have_corners: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return (self.name,)

    @property
    def read_as(self) -> str:
        """See :class:`Detector`."""
        form = "corners" if self.have_corners else "centre and size"
        return f"{form} and {self.classes} class{'es' if self.classes != 1 else ''} of each box, in one output"

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """(rows, classes)."""
        first = CORNERS + self.has_objectness
        found = rows[:, first : first + self.classes]
        return found * rows[:, CORNERS:first] if self.has_objectness else found

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`Detector`."""
        table = _table(outputs[self.name])
        rows = table.T if self.turned else table
        corners = _corners(rows[:, :CORNERS], have_corners=self.have_corners)
        return _best_class(corners, self.scores(rows)).suppressed()


def _in_one(answers: Sequence[Arrays], classes: int | None) -> Detector | None:
    for name, tables in _tables(answers).items():
        shape = tables[0].shape
        if max(shape) < FEWEST_ROWS or min(shape) <= CORNERS or any(map(_are_shares, tables)):
            continue
        turned = shape[0] < shape[1]
        rows = [table.T if turned else table for table in tables]
        after = min(shape) - CORNERS
        if classes is not None and after in (classes, 1 + classes):
            has_objectness = after == 1 + classes
        else:
            has_objectness = not turned and max(shape) > ROWS_OF_QUERIES
        shares = _columns_of_scores(rows)
        found = min(shares, classes + has_objectness) if classes is not None else shares
        if found - has_objectness < 1:
            continue
        have_corners = _have_corners([each[:, :CORNERS] for each in rows])
        if have_corners is None:
            continue
        detector = InOne(name, turned, has_objectness, found - has_objectness, have_corners)
        if _is_sparse([detector.scores(each) for each in rows]):
            return detector
    return None


def _columns_of_scores(tables: Sequence[np.ndarray]) -> int:
    """How many columns behind the box hold shares, in all samples."""
    low = np.min([each.min(axis=0) for each in tables], axis=0)[CORNERS:]
    high = np.max([each.max(axis=0) for each in tables], axis=0)[CORNERS:]
    fits = (low >= -SLACK) & (high <= 1 + SLACK)
    return len(fits) if fits.all() else int(fits.argmin())


@dataclass(frozen=True)
class AfterSuppression:
    """Boxes after suppression in a single output."""

    name: str
    corners: tuple[int, ...]
    """The columns of left, top, right and bottom."""
    score: int
    kind: int
    """The column of the class."""
    read_as = "corners, score and class of each box, after suppression"

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return (self.name,)

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`Detector`."""
        rows = _table(outputs[self.name])
        return Boxes(rows[:, list(self.corners)], rows[:, self.score], rows[:, self.kind].astype(int)).without_weak()


def _after_suppression(answers: Sequence[Arrays]) -> Detector | None:
    forms = {6: ((0, 1, 2, 3), 4, 5), 7: ((3, 4, 5, 6), 2, 1)}
    for name, tables in _tables(answers).items():
        rows = np.concatenate(tables)
        if rows.shape[1] not in forms or rows.size == 0:
            continue
        corners, score, kind = forms[rows.shape[1]]
        have_corners = (rows[:, corners[2:]] >= rows[:, corners[:2]]).all()
        if have_corners and _are_scores(rows[:, score]) and _are_classes(rows[:, kind]):
            return AfterSuppression(name, corners, score, kind)
    return None


@dataclass(frozen=True)
class SideBySide:
    """Boxes and scores before suppression in outputs of their own."""

    boxes: str
    scores: str
    turned: bool
    """Whether a column of the scores is a box."""
    are_logits: bool
    background: int | None
    """The class that stands for nothing."""
    have_corners: bool
    read_as = "boxes and scores, in an output each"

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return (self.boxes, self.scores)

    def shares(self, table: np.ndarray) -> np.ndarray:
        """(rows, classes) without the background."""
        found = table.T if self.turned else table
        found = 1 / (1 + np.exp(-found)) if self.are_logits else found
        return found if self.background is None else np.delete(found, self.background, axis=1)

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`Detector`."""
        corners = _corners(_table(outputs[self.boxes]), have_corners=self.have_corners)
        return _best_class(corners, self.shares(_table(outputs[self.scores]))).suppressed()


@dataclass(frozen=True)
class WithClasses:
    """Boxes, scores and classes after suppression in outputs of their own."""

    boxes: str
    scores: str
    classes: str
    have_corners: bool
    read_as = "boxes, scores and classes, in an output each, after suppression"

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return (self.boxes, self.scores, self.classes)

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`Detector`."""
        corners = _corners(_table(outputs[self.boxes]), have_corners=self.have_corners)
        kinds = outputs[self.classes].ravel().astype(int)
        return Boxes(corners, outputs[self.scores].ravel().astype(np.float64), kinds).without_weak()


def _side_by_side(answers: Sequence[Arrays]) -> Detector | None:
    tables = _tables(answers)
    boxes = [
        name for name, found in tables.items() if found[0].shape[1] == CORNERS and not all(map(_are_shares, found))
    ]
    if len(boxes) != 1:
        return None
    rows = len(tables[boxes[0]][0])
    have_corners = _have_corners(tables[boxes[0]])
    if have_corners is None:
        return None
    final = _with_classes(boxes[0], rows, answers, have_corners=have_corners)
    if final is not None:
        return final
    for name, found in tables.items():
        if name == boxes[0] or rows not in found[0].shape or rows < FEWEST_ROWS:
            continue
        turned = found[0].shape[0] != rows
        are_logits = not _are_scores(np.concatenate(found))
        whole = SideBySide(boxes[0], name, turned, are_logits, None, have_corners)
        background = _background([whole.shares(each) for each in found])
        detector = SideBySide(boxes[0], name, turned, are_logits, background, have_corners)
        shares = [detector.shares(each) for each in found]
        if shares[0].shape[1] and _is_sparse(shares):
            return detector
    return None


def _with_classes(boxes: str, rows: int, answers: Sequence[Arrays], *, have_corners: bool) -> Detector | None:
    """Boxes after suppression: scores and classes stand in vectors."""
    flat = {
        name: np.concatenate([answer[name].ravel() for answer in answers])
        for name, array in answers[0].items()
        if name != boxes and array.size == rows
    }
    classes = [name for name, numbers in flat.items() if _are_classes(numbers)]
    scores = [name for name, numbers in flat.items() if name not in classes and _are_scores(numbers)]
    if len(scores) != 1 or len(classes) != 1:
        return None
    return WithClasses(boxes, scores[0], classes[0], have_corners)


def _background(scores: Sequence[np.ndarray]) -> int | None:
    """The class that most rows belong to; None where there is none."""
    numbers = np.concatenate(scores)
    if numbers.shape[1] < 2:
        return None
    best = np.bincount(numbers.argmax(axis=1)[numbers.max(axis=1) > 0.5], minlength=numbers.shape[1])
    return int(best.argmax()) if best.max() > 0.5 * len(numbers) else None


@dataclass(frozen=True)
class Grid:
    """The outputs of one grid of the picture."""

    stride: int
    """Pixels from cell to cell."""
    width: int
    """Cells in a row."""
    anchors: int
    """Boxes a cell."""
    boxes: str
    scores: tuple[str, ...]
    """Outputs whose product is the score: one a class, one that says whether there is anything."""

    def read(self, outputs: Arrays, *, are_distances: bool) -> Boxes:
        """The boxes in pixels: a cell tells distances of their sides, or an offset and the logarithm of their size."""
        offsets = _table(outputs[self.boxes])
        y, x = np.divmod(np.arange(len(offsets)) // self.anchors, self.width)
        cells = np.stack([x, y], axis=1).astype(np.float64)
        if are_distances:
            corners = np.hstack([cells - offsets[:, :2], cells + offsets[:, 2:]])
        else:
            centres = cells + offsets[:, :2]
            half = np.exp(np.clip(offsets[:, 2:], -LARGEST_EXPONENT, LARGEST_EXPONENT)) / 2
            corners = np.hstack([centres - half, centres + half])
        scores = np.ones(1)
        for name in self.scores:
            scores = scores * np.clip(_table(outputs[name]), 0, 1)
        return _best_class(corners * self.stride, scores ** (1 / len(self.scores)))


@dataclass(frozen=True)
class OnGrids:
    """Offsets from the cells of several grids, with scores of the same rows."""

    grids: tuple[Grid, ...]
    are_distances: bool

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return tuple(name for grid in self.grids for name in (grid.boxes, *grid.scores))

    @property
    def read_as(self) -> str:
        """See :class:`Detector`."""
        return f"offsets from {len(self.grids)} grids of the picture"

    def all_of(self, outputs: Arrays) -> Boxes:
        """The boxes before suppression."""
        parts = [grid.read(outputs, are_distances=self.are_distances) for grid in self.grids]
        return Boxes(
            np.concatenate([part.corners for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.classes for part in parts]),
        )

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`Detector`."""
        return self.all_of(outputs).suppressed()


def _on_grids(answers: Sequence[Arrays], size: tuple[int, int]) -> Detector | None:
    tables = _tables(answers)
    by_rows: dict[int, dict[str, list[np.ndarray]]] = defaultdict(dict)
    for name, found in tables.items():
        by_rows[len(found[0])][name] = found
    grids = [grid for rows, group in by_rows.items() if (grid := _grid(rows, group, size)) is not None]
    if len(grids) < 2:
        return None
    are_distances = all((each >= -SLACK).mean() > NEARLY_ALL for grid in grids for each in tables[grid.boxes])
    detector = OnGrids(tuple(grids), are_distances)
    return detector if _is_sparse([detector.all_of(answer).scores[:, None] for answer in answers]) else None


def _grid(rows: int, group: dict[str, list[np.ndarray]], size: tuple[int, int]) -> Grid | None:
    boxes = [name for name, found in group.items() if found[0].shape[1] == CORNERS]
    scores = tuple(name for name, found in group.items() if name not in boxes and all(map(_are_scores, found)))
    if len(boxes) != 1 or not scores:
        return None
    for stride in STRIDES:
        height, width = -(-size[0] // stride), -(-size[1] // stride)
        if rows % (height * width) == 0 and rows // (height * width) <= MOST_ANCHORS:
            return Grid(stride, width, rows // (height * width), boxes[0], scores)
    return None
