"""Recognizes a detector by the shapes and values of its outputs.

What is known, for a model with one picture as its input:

- one output with a row for each box and its numbers in columns, or the transpose: center and size, then a score for
  each class (YOLOv8, 11), or a score that says whether there is an object and then one for each class (YOLOv5, 7, and X
  if the model decodes its boxes), then further numbers;
- such an output of YOLOX's own export: a row for each cell of the picture's grids, one grid after the other, with the
  offset of the center and the logarithms of the size;
- one output after suppression: corners, score and class, perhaps further numbers if rows are in the order of falling
  scores, or image, class, score and corners (SSD);
- separate outputs of boxes, scores and perhaps classes, with a row for each box (SSD, DETR, torchvision);
- separate outputs for each of several grids of the picture, too: offsets from a cell of the grid (YuNet, SCRFD, FCOS),
  or probabilities of several distances (PicoDet).

A detector finds few objects in many places: outputs whose scores are large in most rows are something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from edgekit.comparison.boxes.grids import cells_of_offsets, on_grids, orders_of_grids
from edgekit.comparison.boxes.reading import CORNERS, Columns, Detector, Rows
from edgekit.comparison.boxes.tables import (
    NEARLY_ALL,
    SLACK,
    are_classes,
    are_corners,
    are_scores,
    are_shares,
    background_of,
    columns_of_scores,
    is_map,
    is_sparse,
    is_turned,
    tables_of,
    widths,
)
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, ValueSpec

FEWEST_ROWS = 100
"""The least number of rows of boxes before suppression, unless the number of columns fits the known classes."""
ROWS_OF_QUERIES = 1000
"""Detectors with queries (DETR) have at most this many rows, and no score that says whether there is an object."""
LARGEST_SHARE = 2.0
"""Coordinates up to this value are shares of the picture, whose edges boxes exceed a little; in pixels they are
larger."""
UNDECLARED = DeclaredOutputs()


def recognised(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None = None,
    declared: DeclaredOutputs = UNDECLARED,
) -> Detector | None:
    """Returns how the boxes of a model are read, or None if its outputs do not look like a detector's.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes there are, where that is known.
        declared: What the user declares. Named outputs need not look like a detector's: they may have few rows, or
            large scores in most rows.
    """
    picture = picture_among(inputs)
    if (picture is None and not declared.boxes) or not answers or declared.are_none:
        return None
    if declared.boxes is not None:
        answers = [{name: answer[name] for name in declared.boxes} for answer in answers]
    size = None if picture is None else size_of(picture)
    known: tuple[Callable[[], Detector | None], ...] = (
        lambda: after_suppression(answers, declared),  # first: classes that are 0 or 1 look like scores, too
        lambda: in_one(answers, size, classes, declared),
        lambda: None if size is None else on_grids(answers, size),
        lambda: side_by_side(answers, classes, declared),
    )
    for find in known:
        detector = find()
        if detector is None:
            continue
        largest = [float(np.abs(boxes.corners).max()) for answer in answers if len(boxes := detector.read(answer))]
        if largest and isinstance(detector, Rows) and not detector.cells:
            are_shares = max(largest) <= LARGEST_SHARE if declared.unit is None else declared.unit == "share"
            return replace(detector, are_shares=are_shares, order=declared.order or detector.order)
        if largest:
            return detector
    return None


def picture_among(inputs: Sequence[ValueSpec]) -> ValueSpec | None:
    """Returns the only picture among inputs, (1, channels, height, width) or (1, height, width, channels), or None."""
    pictures = [spec for spec in inputs if _is_picture(spec)]
    return pictures[0] if len(pictures) == 1 else None


def _is_picture(spec: ValueSpec) -> bool:
    shape = spec.shape or ()
    return (
        len(shape) == 4 and all(isinstance(size, int) for size in shape) and (shape[1] in (1, 3) or shape[3] in (1, 3))
    )


def size_of(picture: ValueSpec) -> tuple[int, int]:
    """Returns a picture's height and width."""
    sizes = [size for size in picture.shape or () if isinstance(size, int)]
    return (sizes[2], sizes[3]) if sizes[1] in (1, 3) else (sizes[1], sizes[2])


def in_one(
    answers: Sequence[Arrays],
    size: tuple[int, int] | None,
    classes: int | None,
    declared: DeclaredOutputs,
    fewest: int = FEWEST_ROWS,
) -> Rows | None:
    """Returns how an output with a row or a column for each box is read, or None if there is none.

    Args:
        answers: The model's outputs on a few samples.
        size: The picture's height and width, where that is known.
        classes: How many classes there are, where that is known.
        declared: What the user says.
        fewest: The least number of rows of boxes, unless the number of columns fits the classes.
    """
    for name, tables in tables_of(answers).items():
        turned = is_turned(tables, classes)
        rows = [table.T if turned else table for table in tables]
        count, width = rows[0].shape
        unlike = (count < fewest and width - CORNERS not in widths(classes)) or any(map(are_shares, tables))
        unlike |= size is not None and is_map(tables[0], size)
        if width <= CORNERS or (unlike and not declared.boxes):
            continue
        cells = None if size is None or declared.coordinates is not None else cells_of_offsets(rows, size)
        after = width - CORNERS
        if classes is not None and after in widths(classes):
            has_objectness = after == 1 + classes
        else:
            has_objectness = bool(cells) or (not turned and count > ROWS_OF_QUERIES)
        shares = columns_of_scores(rows)
        found = min(shares, classes + has_objectness) if classes is not None else shares
        if found - has_objectness < 1:
            continue
        have_corners = False if cells else are_corners([each[:, :CORNERS] for each in rows], declared)
        if have_corners is None or (cells == () and not declared.boxes):
            continue
        first = CORNERS + has_objectness
        detector = Rows(
            Columns(name, width, 0, CORNERS, turned),
            have_corners,
            Columns(name, width, first, found - has_objectness, turned),
            objectness=Columns(name, width, CORNERS, 1, turned) if has_objectness else None,
            cells=cells or (),
        )
        if declared.boxes or is_sparse([detector.all_scores(answer) for answer in answers]):
            return min(orders_of_grids(detector), key=lambda each: sum(len(each.read(answer)) for answer in answers))
    return None


def after_suppression(answers: Sequence[Arrays], declared: DeclaredOutputs) -> Detector | None:
    """Returns how an output of boxes after suppression is read, or None if there is none."""
    forms = {6: (0, 4, 5), 7: (3, 2, 1)}
    for name, tables in tables_of(answers).items():
        rows = np.concatenate(tables)
        width = rows.shape[1]
        if width < min(forms) or rows.size == 0:
            continue
        first, score, kind = forms.get(width, forms[min(forms)])
        if width not in forms and not all((np.diff(table[:, score]) <= 0).all() for table in tables):
            continue
        if (
            (_have_sides(rows, first, score) or declared.coordinates)
            and are_scores(rows[:, score])
            and are_classes(rows[:, kind])
        ):
            coordinates, scores, classes = (
                Columns(name, width, at, n) for at, n in ((first, CORNERS), (score, 1), (kind, 1))
            )
            return Rows(coordinates, declared.coordinates != "centre_and_size", scores, classes=classes)
    return None


def _have_sides(rows: np.ndarray, first: int, score: int) -> bool:
    """Whether four columns are corners in all rows with a score above :data:`SLACK`, and in nearly all rows.

    A detector that gives a fixed number of rows (YOLOv10, YOLO26) fills the rest with numbers that were not trained.
    """
    have: np.ndarray = np.all(rows[:, first + 2 : first + CORNERS] >= rows[:, first : first + 2], axis=1)
    return bool(have[rows[:, score] > SLACK].all() and have.mean() > NEARLY_ALL)


def side_by_side(
    answers: Sequence[Arrays], classes: int | None, declared: DeclaredOutputs, fewest: int = FEWEST_ROWS
) -> Rows | None:
    """Returns how boxes and scores in separate outputs are read, see :func:`in_one`, or None if there are none."""
    tables = tables_of(answers)
    fours = [found for found in tables.items() if found[1][0].shape[1] == CORNERS]
    forms = {name: are_corners(found, declared) for name, found in fours if not all(map(are_shares, found))}
    boxes = [name for name, form in forms.items() if form is not None]
    if not boxes or (len(boxes) > 1 and not declared.boxes):
        return None
    rows = len(tables[boxes[0]][0])
    have_corners = forms[boxes[0]] is True
    coordinates = Columns(boxes[0], CORNERS, 0, CORNERS)
    final = _with_classes(coordinates, rows, answers, have_corners=have_corners)
    if final is not None:
        return final
    for name, found in tables.items():
        if name == boxes[0] or rows not in found[0].shape:
            continue
        turned = found[0].shape[0] != rows
        width = found[0].shape[0 if turned else 1]
        if rows < fewest and width not in widths(classes) and not declared.boxes:
            continue
        detector, shares = scored(coordinates, name, found, answers, have_corners=have_corners, turned=turned)
        if shares[0].shape[1] and (declared.boxes or is_sparse(shares)):
            return detector
    return None


def scored(
    coordinates: Columns,
    name: str,
    found: Sequence[np.ndarray],
    answers: Sequence[Arrays],
    *,
    have_corners: bool,
    turned: bool = False,
) -> tuple[Rows, list[np.ndarray]]:
    """Returns boxes whose scores or logits are a separate output, and all samples' scores without the background."""
    width = found[0].shape[0 if turned else 1]
    scores = Columns(name, width, 0, width, turned)
    are_logits = not are_scores(np.concatenate(found))
    whole = Rows(coordinates, have_corners, scores, "logistic" if are_logits else "none", order=None)
    detector = replace(whole, background=background_of([whole.all_scores(answer) for answer in answers]))
    if are_logits and detector.background is not None:
        detector = replace(detector, activation="softmax")  # the background is a class among others: they add up to one
    return detector, [detector.all_scores(answer) for answer in answers]


def _with_classes(boxes: Columns, rows: int, answers: Sequence[Arrays], *, have_corners: bool) -> Rows | None:
    """Returns how boxes after suppression with scores and classes in vectors are read, or None without such vectors."""
    flat = {
        name: np.concatenate([answer[name].ravel() for answer in answers])
        for name, array in answers[0].items()
        if name != boxes.output and array.size == rows
    }
    classes = [name for name, numbers in flat.items() if are_classes(numbers)]
    scores = [name for name, numbers in flat.items() if name not in classes and are_scores(numbers)]
    if len(scores) != 1 or len(classes) != 1:
        return None
    kinds = Columns(classes[0], 1, 0, 1)
    return Rows(boxes, have_corners, Columns(scores[0], 1, 0, 1), classes=kinds, order=None)
