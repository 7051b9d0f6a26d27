"""Recognises a detector by the shapes and values of its outputs.

What is known, for a model with one picture as its input:

- one output with a row a box and all that is known of it in columns, or the other way round: centre and size, then a
  score a class (YOLOv8, 11), or one that says whether there is anything and then one a class (YOLOv5, 7, and X
  where the model decodes its boxes), then more;
- the same as YOLOX's own export has it: a row a cell of the picture's grids, one grid after the other, with the offset
  of the centre and the logarithms of the size;
- the same after suppression: corners, score and class, perhaps more behind them by falling score, or image, class,
  score and corners (SSD);
- boxes, scores and perhaps classes as outputs of their own, with a row a box (SSD, DETR, torchvision);
- the same, and for each of several grids of the picture: offsets from a cell of the grid (YuNet, SCRFD, FCOS), or
  shares of each of several distances (PicoDet).

A detector finds little in many places: outputs whose scores are large in most rows are something else.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgekit.comparison.box_reading import CORNERS, Cells, Columns, Detector, Grid, OnGrids, Rows, table_of
from edgekit.comparison.boxes import CONFIDENT
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, ValueSpec

FEWEST_ROWS = 100
"""Rows that tell of boxes before suppression, where their columns are not those of the classes that are known."""
ROWS_OF_QUERIES = 1000
"""Detectors with queries (DETR) have fewer rows, and no score that says whether there is anything."""
MOST_CONFIDENT = 0.3
"""Of how many rows at most a detector is confident before suppression."""
LEAST_ALIKE = 0.5
"""The correlation, in the mean of both axes, from which on centres of boxes follow the cells of a grid. That of offsets
may be below zero: they point at what is found."""
LEAST_AT_ANCHORS = 0.9
"""Of how many rows the box lies over its anchor where an app holds the anchors."""
LEAST_BEFORE_ANCHORS = 0.1
"""Of how many of these the centre lies to the left of its anchor, and of how many above it."""
STRIDES = (4, 8, 16, 32, 64, 128)
LARGEST_OFFSET = 20.0
"""Of a centre from its cell, in cells, and of the logarithm of a size: pixels are more."""
MOST_ANCHORS = 3
BINS = range(8, 33)
"""How many numbers tell a distance, where it is a mean of several: 8 of PicoDet, 17 of GFL."""
SLACK = 1e-3
"""What scores may lie outside of 0 to 1, and sizes below 0 as a share of the largest coordinate."""
NEARLY_ALL = 0.99
MOST_OFF_ONE = 1e-2
LEAST_OF_SHARES = 0.9
"""What is left of shares that add up to one when small ones are rounded off."""
LARGEST_SHARE = 2.0
"""Up to which coordinate boxes are shares of the picture, over which they reach a little; a box of 2 pixels is none."""

_NOTHING_FOUND = f"no row has a score of {CONFIDENT} or more"

UNDECLARED = DeclaredOutputs()


def recognised(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None = None,
    declared: DeclaredOutputs = UNDECLARED,
) -> Detector | None:
    """How the boxes of a model are read; None where it is no detector, as far as can be seen.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes there are, where that is known.
        declared: What the user says. Outputs that are named need not look like a detector's: there may be few rows, or
            large scores in most of them.
    """
    picture = picture_among(inputs)
    if (picture is None and not declared.boxes) or not answers or declared.are_none:
        return None
    if declared.boxes is not None:
        answers = [{name: answer[name] for name in declared.boxes} for answer in answers]
    size = None if picture is None else size_of(picture)
    known: tuple[Callable[[], Detector | None], ...] = (
        lambda: _after_suppression(answers, declared),  # first: a class is a share too, where it is 0 or 1
        lambda: _in_one(answers, size, classes, declared),
        lambda: None if size is None else _on_grids(answers, size),
        lambda: _side_by_side(answers, classes, declared),
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


@dataclass(frozen=True)
class NearMiss:
    """Outputs that look like boxes, and are not read as such."""

    outputs: tuple[str, ...]
    why: str
    """What tells that they are none, in words."""
    found: bool = True
    """Whether something was found on the samples; without it, outputs that are named are not read as boxes either."""
    decoded: bool = True
    """Whether boxes can be read from the outputs alone; else they are offsets from anchors that the app holds."""

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.outputs)
        looks = f"output{'s' if len(self.outputs) > 1 else ''} {names} look{'' if len(self.outputs) > 1 else 's'} like"
        advice = (
            "export the model with its boxes decoded, or judge it by --metric; until then numbers and classes count"
            if not self.decoded
            else f"[outputs] boxes = [{names}] in the project file reads boxes from there"
            if self.found
            else "give samples with something to find"
        )
        return (
            f"{looks} a detector's boxes, and no boxes are read, for {self.why}: {advice}; boxes = false says that "
            "there are none"
        )


def nearly_recognised(
    answers: Sequence[Arrays],
    inputs: Sequence[ValueSpec],
    classes: int | None = None,
    declared: DeclaredOutputs = UNDECLARED,
) -> NearMiss | None:
    """What looks like boxes in a model that is not recognised as a detector; None where nothing does.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        classes: How many classes there are, where that is known.
        declared: What the user says; nothing is looked for once that is something of boxes or embeddings.
    """
    picture = picture_among(inputs)
    if picture is None or not answers or declared.boxes is not None or declared.embeddings:
        return None
    size, several = size_of(picture), 2
    suppressed = _after_suppression(answers, declared)
    if suppressed is not None and not any(len(suppressed.read(answer)) for answer in answers):
        return NearMiss(suppressed.outputs, _NOTHING_FOUND, found=False)
    for detector in (
        _in_one(answers, size, classes, declared, several),
        _side_by_side(answers, classes, declared, several),
    ):
        if detector is not None and (len(detector.outputs) > 1 or _is_full(detector, classes)):
            found = len(detector.coordinates.of(answers[0]))
            return NearMiss(detector.outputs, f"there are {found} rows (at least {FEWEST_ROWS})")
    for name, tables in _tables(answers).items():
        turned = _is_turned(tables[0], classes)
        rows = [table.T if turned else table for table in tables]
        count, width = rows[0].shape
        if width - CORNERS not in _widths(classes) or count < several or any(map(_are_shares, tables)):
            continue
        if classes is not None and _is_full_of_scores(rows, classes):
            confident = _share_of_confident([each[:, -classes:] for each in rows])
            if confident == 0:
                return NearMiss((name,), _NOTHING_FOUND, found=False)
            most = f"{MOST_CONFIDENT:.0%}"
            return NearMiss(
                (name,), f"{confident:.0%} of the rows have a score of {CONFIDENT} or more (at most {most})"
            )
    return _from_anchors(answers)


def _from_anchors(answers: Sequence[Arrays]) -> NearMiss | None:
    """Rows of scores of which few are confident, beside rows of four numbers that are no boxes by themselves (SSD).

    Behind the four numbers pairs may stand, key points; the score is one number a row then (MediaPipe).
    """
    tables = _tables(answers)
    for name, found in tables.items():
        count, width = found[0].shape
        if width < CORNERS or width % 2 or count < FEWEST_ROWS:
            continue
        if _have_corners([each[:, :CORNERS] for each in found], UNDECLARED) is not None:
            continue
        for other, scores in tables.items():
            if other == name or len(scores[0]) != count or (width > CORNERS and scores[0].shape[1] > 1):
                continue
            _, objects = _scored(Columns(name, width, 0, CORNERS), other, scores, answers, have_corners=False)
            if objects[0].shape[1] and _is_sparse(objects):
                first = "the four" if width == CORNERS else "the first four"
                why = f'{first} numbers of a row in "{name}" are neither corners nor centre and size in the picture'
                return NearMiss((name, other), why, decoded=False)
    return None


def _widths(classes: int | None) -> tuple[int, ...]:
    """How many columns stand behind a box where so many classes are known."""
    return () if classes is None else (classes, 1 + classes)


def _is_full(detector: Rows, classes: int | None) -> bool:
    """Whether all that stands behind the boxes of an output is scores."""
    scores = detector.scores
    return classes is not None or scores.first + scores.count == scores.width


def _is_full_of_scores(rows: Sequence[np.ndarray], classes: int) -> bool:
    """Whether the last columns are scores, and the first ones may be boxes."""
    boxes = _have_corners([each[:, :CORNERS] for each in rows], UNDECLARED)
    return boxes is not None and all(_are_scores(each[:, -classes:]) for each in rows)


def picture_among(inputs: Sequence[ValueSpec]) -> ValueSpec | None:
    """The only input that is a picture: (1, channels, height, width) or (1, height, width, channels)."""
    pictures = [spec for spec in inputs if _is_picture(spec)]
    return pictures[0] if len(pictures) == 1 else None


def _is_picture(spec: ValueSpec) -> bool:
    shape = spec.shape or ()
    return (
        len(shape) == 4 and all(isinstance(size, int) for size in shape) and (shape[1] in (1, 3) or shape[3] in (1, 3))
    )


def size_of(picture: ValueSpec) -> tuple[int, int]:
    """Height and width."""
    sizes = [size for size in picture.shape or () if isinstance(size, int)]
    return (sizes[2], sizes[3]) if sizes[1] in (1, 3) else (sizes[1], sizes[2])


def _tables(answers: Sequence[Arrays]) -> dict[str, list[np.ndarray]]:
    """The floating-point outputs that are tables, by name, those of all samples."""
    names = [name for name, array in answers[0].items() if array.dtype.kind == "f" and table_of(array).ndim == 2]
    return {name: [table_of(answer[name]) for answer in answers] for name in names}


def _is_sparse(scores: Sequence[np.ndarray]) -> bool:
    """Whether few rows are confident, and some are, in all samples together."""
    return 0 < _share_of_confident(scores) <= MOST_CONFIDENT


def _share_of_confident(scores: Sequence[np.ndarray]) -> float:
    return float(np.concatenate([each.max(axis=1) >= CONFIDENT for each in scores]).mean())


def _are_scores(numbers: np.ndarray) -> bool:
    return bool(((numbers >= -SLACK) & (numbers <= 1 + SLACK)).all())


def _are_classes(numbers: np.ndarray) -> bool:
    return bool((numbers == np.round(numbers)).all() and numbers.min(initial=0) >= -1)


def _are_shares(table: np.ndarray) -> bool:
    """Whether rows or columns add up to one, as what Softmax gives: a class each, and no box.

    Where the sums are quantized, small shares are rounded off: rows add up to less then, most of them a little.
    """
    sums = (table.sum(axis=axis) for axis in (0, 1))
    return any(bool((each < 1 + MOST_OFF_ONE).all() and np.median(each) > LEAST_OF_SHARES) for each in sums)


def _have_corners(tables: Sequence[np.ndarray], declared: DeclaredOutputs) -> bool | None:
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


def _in_one(
    answers: Sequence[Arrays],
    size: tuple[int, int] | None,
    classes: int | None,
    declared: DeclaredOutputs,
    fewest: int = FEWEST_ROWS,
) -> Rows | None:
    for name, tables in _tables(answers).items():
        turned = _is_turned(tables[0], classes)
        rows = [table.T if turned else table for table in tables]
        count, width = rows[0].shape
        unlike = (count < fewest and width - CORNERS not in _widths(classes)) or any(map(_are_shares, tables))
        unlike |= size is not None and _is_map(tables[0], size)
        if width <= CORNERS or (unlike and not declared.boxes):
            continue
        cells = None if size is None or declared.coordinates is not None else _cells_of_offsets(rows, size)
        after = width - CORNERS
        if classes is not None and after in _widths(classes):
            has_objectness = after == 1 + classes
        else:
            has_objectness = bool(cells) or (not turned and count > ROWS_OF_QUERIES)
        shares = _columns_of_scores(rows)
        found = min(shares, classes + has_objectness) if classes is not None else shares
        if found - has_objectness < 1:
            continue
        have_corners = False if cells else _have_corners([each[:, :CORNERS] for each in rows], declared)
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
        if declared.boxes or _is_sparse([detector.all_scores(answer) for answer in answers]):
            return min(_orders_of_grids(detector), key=lambda each: sum(len(each.read(answer)) for answer in answers))
    return None


def _orders_of_grids(detector: Rows) -> list[Rows]:
    """The finest grid first or last, as rows do not tell; where it is right, the cells of an object tell one box."""
    return [detector, *([replace(detector, cells=detector.cells[::-1])] if detector.cells else [])]


def _is_map(table: np.ndarray, size: tuple[int, int]) -> bool:
    """Whether there is a number for each pixel of the picture, or of one with a fraction of its height and width."""
    (height, more), (width, beyond) = (divmod(whole, part) for whole, part in zip(size, table.shape, strict=True))
    return height == width and not (more or beyond)


def _cells_of_offsets(tables: Sequence[np.ndarray], size: tuple[int, int]) -> tuple[Cells, ...] | None:
    """The grids from whose cells the first columns tell offsets, a row a cell, the finest grid first as in YOLOX.

    Centres of boxes lie near their cells, so that both grow together from row to row; offsets do not. Empty where the
    columns are neither, and None where they are no offsets, or rows are no cells.
    """
    centres = np.mean(tables, axis=0)[:, :2].T
    for first, last in itertools.combinations(range(len(STRIDES) + 1), 2):
        cells = tuple(Cells(stride, -(-size[1] // stride), -(-size[0] // stride)) for stride in STRIDES[first:last])
        if sum(grid.width * grid.height for grid in cells) != centres.shape[1]:
            continue
        placed = [grid.stride * grid.places().T for grid in cells]
        orders = (np.concatenate(ordered, axis=1) for ordered in (placed, placed[::-1]))
        alike = [np.corrcoef(centres, order)[:2, 2:] for order in orders]
        if any(max(np.trace(each), np.trace(each[::-1])) >= 2 * LEAST_ALIKE for each in alike):  # x first, or y first
            return None
        return cells if len(cells) > 1 and _may_be_offsets(np.concatenate(tables)[:, :CORNERS]) else ()
    return None


def _may_be_offsets(numbers: np.ndarray) -> bool:
    """Whether four columns may be offsets of a centre, in cells, and logarithms of sizes: no shares, and not large."""
    are_shares = ((numbers >= -SLACK) & (numbers <= 1 + SLACK)).all(axis=0)
    return bool(np.isfinite(numbers).all() and not are_shares.any() and np.abs(numbers).max() <= LARGEST_OFFSET)


def _is_turned(table: np.ndarray, classes: int | None) -> bool:
    """Whether a column is a box: as the number of classes tells, else where there are more columns than rows."""
    for turned, width in enumerate(table.shape[::-1]):
        if width - CORNERS in _widths(classes):
            return bool(turned)
    return bool(table.shape[0] < table.shape[1])


def _columns_of_scores(tables: Sequence[np.ndarray]) -> int:
    """How many columns behind the box hold shares, in all samples."""
    low = np.min([each.min(axis=0) for each in tables], axis=0)[CORNERS:]
    high = np.max([each.max(axis=0) for each in tables], axis=0)[CORNERS:]
    fits = (low >= -SLACK) & (high <= 1 + SLACK)
    return len(fits) if fits.all() else int(fits.argmin())


def _after_suppression(answers: Sequence[Arrays], declared: DeclaredOutputs) -> Detector | None:
    forms = {6: (0, 4, 5), 7: (3, 2, 1)}
    for name, tables in _tables(answers).items():
        rows = np.concatenate(tables)
        width = rows.shape[1]
        if width < min(forms) or rows.size == 0:
            continue
        first, score, kind = forms.get(width, forms[min(forms)])
        if width not in forms and not all((np.diff(table[:, score]) <= 0).all() for table in tables):
            continue
        ordered = (rows[:, first + 2 : first + CORNERS] >= rows[:, first : first + 2]).all()
        if (ordered or declared.coordinates) and _are_scores(rows[:, score]) and _are_classes(rows[:, kind]):
            coordinates, scores, classes = (
                Columns(name, width, at, n) for at, n in ((first, CORNERS), (score, 1), (kind, 1))
            )
            return Rows(coordinates, declared.coordinates != "centre_and_size", scores, classes=classes)
    return None


def _side_by_side(
    answers: Sequence[Arrays], classes: int | None, declared: DeclaredOutputs, fewest: int = FEWEST_ROWS
) -> Rows | None:
    tables = _tables(answers)
    fours = [found for found in tables.items() if found[1][0].shape[1] == CORNERS]
    forms = {name: _have_corners(found, declared) for name, found in fours if not all(map(_are_shares, found))}
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
        if rows < fewest and width not in _widths(classes) and not declared.boxes:
            continue
        detector, shares = _scored(coordinates, name, found, answers, have_corners=have_corners, turned=turned)
        if shares[0].shape[1] and (declared.boxes or _is_sparse(shares)):
            return detector
    return None


def _scored(
    coordinates: Columns,
    name: str,
    found: Sequence[np.ndarray],
    answers: Sequence[Arrays],
    *,
    have_corners: bool,
    turned: bool = False,
) -> tuple[Rows, list[np.ndarray]]:
    """Boxes whose scores or logits are an output of their own; and all samples' scores, without the background."""
    width = found[0].shape[0 if turned else 1]
    scores = Columns(name, width, 0, width, turned)
    are_logits = not _are_scores(np.concatenate(found))
    whole = Rows(coordinates, have_corners, scores, "logistic" if are_logits else "none", order=None)
    detector = replace(whole, background=_background([whole.all_scores(answer) for answer in answers]))
    if are_logits and detector.background is not None:
        detector = replace(detector, activation="softmax")  # nothing is a class among others: they add up to one
    return detector, [detector.all_scores(answer) for answer in answers]


def _with_classes(boxes: Columns, rows: int, answers: Sequence[Arrays], *, have_corners: bool) -> Rows | None:
    """Boxes after suppression: scores and classes stand in vectors."""
    flat = {
        name: np.concatenate([answer[name].ravel() for answer in answers])
        for name, array in answers[0].items()
        if name != boxes.output and array.size == rows
    }
    classes = [name for name, numbers in flat.items() if _are_classes(numbers)]
    scores = [name for name, numbers in flat.items() if name not in classes and _are_scores(numbers)]
    if len(scores) != 1 or len(classes) != 1:
        return None
    kinds = Columns(classes[0], 1, 0, 1)
    return Rows(boxes, have_corners, Columns(scores[0], 1, 0, 1), classes=kinds, order=None)


def _background(scores: Sequence[np.ndarray]) -> int | None:
    """The class that most rows belong to; None where there is none."""
    numbers = np.concatenate(scores)
    if numbers.shape[1] < 2:
        return None
    best = np.bincount(numbers.argmax(axis=1)[numbers.max(axis=1) > 0.5], minlength=numbers.shape[1])
    return int(best.argmax()) if best.max() > 0.5 * len(numbers) else None


def _on_grids(answers: Sequence[Arrays], size: tuple[int, int]) -> Detector | None:
    tables = _tables(answers)
    by_rows: dict[int, dict[str, list[np.ndarray]]] = defaultdict(dict)
    for name, found in tables.items():
        by_rows[len(found[0])][name] = found
    grids = [grid for rows, group in by_rows.items() if (grid := _grid(rows, group, size)) is not None]
    if len(grids) < 2:
        return None
    are_distances = all(
        grid.bins > 1 or (each >= -SLACK).mean() > NEARLY_ALL for grid in grids for each in tables[grid.boxes]
    )
    detector = OnGrids(tuple(grids), are_distances)
    return detector if _is_sparse([detector.all_of(answer).scores[:, None] for answer in answers]) else None


def _grid(rows: int, group: dict[str, list[np.ndarray]], size: tuple[int, int]) -> Grid | None:
    scores = tuple(
        name for name, found in group.items() if found[0].shape[1] != CORNERS and all(map(_are_scores, found))
    )
    boxes = {name: bins for name in group if name not in scores and (bins := _bins(group[name][0].shape[1]))}
    if len(boxes) != 1 or not scores:
        return None
    ((name, bins),) = boxes.items()
    for stride in STRIDES:
        height, width = -(-size[0] // stride), -(-size[1] // stride)
        if rows % (height * width) == 0 and rows // (height * width) <= MOST_ANCHORS:
            return Grid(stride, width, rows // (height * width), name, scores, bins)
    return None


def _bins(width: int) -> int:
    """How many numbers of a row tell each of four offsets; 0 where they tell none."""
    bins, rest = divmod(width, CORNERS)
    return bins if rest == 0 and (bins == 1 or bins in BINS) else 0
