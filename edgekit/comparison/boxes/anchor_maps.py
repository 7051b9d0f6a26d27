"""Detectors that end in maps of several grids of the picture, as they are exported for accelerators.

What is known:

- YOLOv3 to 7 without their last layer: a few anchors for each cell, and for each anchor four numbers of the box, one
  that says whether there is an object, then one for each class, all logits. Anchors are assumed to be as large as their
  cells, though they are larger.
- YOLOv8 to 11 without their last layer: for each cell 16 logits for each of four distances, whose softmax-weighted mean
  is the distance of a side from the cell (GFL: Li et al., 2020, arXiv:2006.04388), and a score or a logit for each
  class, in one map or in two, perhaps with the sum of the scores in a third.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from edgekit.comparison.boxes.matching import Boxes
from edgekit.comparison.boxes.reading import CORNERS, best_class, corners_of, joined, mean_distances
from edgekit.comparison.boxes.tables import are_scores, is_sparse
from edgekit.model import Arrays

ANCHORS_OF_A_CELL = (3, 5, 6, 9)
"""The possible numbers of anchors of a grid's cell: 3 in YOLOv3 and later, 5 in YOLOv2."""
LEAST_LOGITS = CORNERS + 2
"""The least numbers for each anchor: four of a box, one that says whether there is an object, and one of a class."""
BINS = 16
"""How many logits encode a distance (``reg_max`` of YOLOv8 to 11)."""


@dataclass(frozen=True)
class AnchorMaps:
    """One map for each grid, with several anchors for each cell."""

    maps: tuple[str, ...]
    anchors: int
    """The number of anchors of each cell."""
    numbers: int
    """The numbers for each anchor: box, whether there is an object, and classes, all logits."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return self.maps

    @property
    def placing(self) -> tuple[str, ...]:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return self.maps

    @property
    def read_as(self) -> str:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        classes = _counted(self.numbers - CORNERS - 1)
        return f"logits of boxes and {classes} of {self.anchors} anchors a cell that the app holds"

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        logits = np.concatenate([_rows(outputs[name], self.anchors, self.numbers) for name in self.maps])
        shares = 1 / (1 + np.exp(-logits))
        corners = corners_of(2 * shares[:, :2], np.square(2 * shares[:, 2:CORNERS]))
        return best_class(corners, shares[:, CORNERS : CORNERS + 1] * shares[:, CORNERS + 1 :])


class DistanceMap(NamedTuple):
    """The maps of one grid."""

    distances: str
    """The map whose first channels are the logits of distances."""
    scores: str
    """The map of classes; the same map if classes follow the distances in its channels."""


@dataclass(frozen=True)
class DistanceMaps:
    """Maps of distances and classes of each grid."""

    grids: tuple[DistanceMap, ...]
    classes: int
    are_logits: bool
    """Whether the classes' numbers are logits, which the logistic function turns into scores."""
    sums: tuple[str, ...] = ()
    """Maps with one channel, the sums of scores."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return (*dict.fromkeys(name for grid in self.grids for name in grid), *self.sums)

    @property
    def placing(self) -> tuple[str, ...]:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return tuple(grid.distances for grid in self.grids)

    @property
    def read_as(self) -> str:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return f"distances from the cells of {len(self.grids)} grids and {_counted(self.classes)}"

    def read(self, outputs: Arrays) -> Boxes:
        """See :class:`edgekit.comparison.boxes.anchors.AnchorReading`."""
        return joined([self._read(outputs, grid) for grid in self.grids])

    def _read(self, outputs: Arrays, grid: DistanceMap) -> Boxes:
        split, bins = grid.distances != grid.scores, CORNERS * BINS
        rows = _rows(outputs[grid.distances], 1, bins if split else bins + self.classes)
        scores = _rows(outputs[grid.scores], 1, self.classes) if split else rows[:, bins:]
        distances = mean_distances(rows[:, :bins], BINS)
        corners = np.hstack([-distances[:, :2], distances[:, 2:]])
        return best_class(corners, 1 / (1 + np.exp(-scores)) if self.are_logits else scores)


def maps_of_grids(answers: Sequence[Arrays], size: tuple[int, int]) -> AnchorMaps | DistanceMaps | None:
    """Returns how maps of at least two grids of the picture are read, or None if there are none.

    Args:
        answers: The model's outputs on a few samples, of equal shapes.
        size: The picture's height and width.
    """
    known = [_anchor_maps(answers[0], size, anchors) for anchors in ANCHORS_OF_A_CELL]
    for reading in (*known, *_distance_maps(answers, size)):
        if reading is not None and is_sparse([reading.read(answer).scores[:, np.newaxis] for answer in answers]):
            return reading
    return None


def _anchor_maps(answer: Arrays, size: tuple[int, int], anchors: int) -> AnchorMaps | None:
    forms = {name: _form(array, anchors, size) for name, array in answer.items()}
    maps = {name: form for name, form in forms.items() if form is not None and form.numbers >= LEAST_LOGITS}
    numbers, strides = ({getattr(form, key) for form in maps.values()} for key in ("numbers", "stride"))
    return AnchorMaps(tuple(maps), anchors, numbers.pop()) if len(numbers) == 1 and len(strides) > 1 else None


def _distance_maps(answers: Sequence[Arrays], size: tuple[int, int]) -> list[DistanceMaps]:
    """Returns the readings that the shapes allow; of two maps with 64 channels either may be the distances."""
    by_stride: dict[int, dict[str, int]] = defaultdict(dict)
    for name, array in answers[0].items():
        form = _form(array, 1, size)
        if form is not None:
            by_stride[form.stride][name] = form.numbers
    if len(by_stride) < 2:
        return []
    readings = []
    for place in range(2):
        found = [_distance_map(numbers, place) for numbers in by_stride.values()]
        grids = [grid for grid in found if grid is not None]
        classes = {classes for _, classes, _ in grids}
        if len(grids) < len(found) or len(classes) != 1:
            continue
        maps, sums = tuple(grid for grid, _, _ in grids), tuple(name for _, _, more in grids for name in more)
        count = classes.pop()
        split = all(grid.distances != grid.scores for grid in maps)
        numbers = [_rows(answer[grid.scores], 1, count) for answer in answers for grid in maps] if split else []
        readings.append(DistanceMaps(maps, count, not (split and all(map(are_scores, numbers))), sums))
    return readings


def _distance_map(numbers: dict[str, int], place: int) -> tuple[DistanceMap, int, tuple[str, ...]] | None:
    """Returns the maps of a grid, the number of classes and the maps of sums, or None if the channels do not fit.

    Args:
        numbers: How many channels each map has.
        place: Which of the maps that may hold the distances is assumed to do so, counted from 0.
    """
    bins = CORNERS * BINS
    sums = tuple(name for name, count in numbers.items() if count == 1 and len(numbers) > 2)
    maps = [name for name in numbers if name not in sums]
    distances = [name for name in maps if numbers[name] == bins]
    if len(maps) == 1 and numbers[maps[0]] > bins:
        return DistanceMap(maps[0], maps[0]), numbers[maps[0]] - bins, sums
    if len(maps) != 2 or len(distances) <= place:
        return None
    (scores,) = (name for name in maps if name != distances[place])
    return DistanceMap(distances[place], scores), numbers[scores], sums


class _Form(NamedTuple):
    stride: int
    """Pixels from cell to cell."""
    numbers: int
    """The numbers for each anchor."""


def _form(array: np.ndarray, anchors: int, size: tuple[int, int]) -> _Form | None:
    """Returns the stride and the numbers for each anchor of a map, or None if it is no map of a grid of the picture."""
    shape = array.shape
    forms: tuple[tuple[tuple[int, ...], int], ...] = ()
    if len(shape) == len("NCHW"):
        forms = (shape[2:], shape[1]), (shape[1:3], shape[3])
    elif len(shape) == len("NCHW") + 1:
        forms = (shape[2:4], shape[1] * shape[4]), (shape[1:3], shape[3] * shape[4])
    if array.dtype.kind != "f" or not forms or shape[0] != 1:
        return None
    for grid, channels in forms:
        (down, below), (across, beyond) = (divmod(whole, part) for whole, part in zip(size, grid, strict=True))
        numbers, rest = divmod(channels, anchors)
        split = len(shape) == len("NCHW") or anchors in (shape[1], shape[3])
        if down == across > 1 and not (below or beyond or rest) and split:
            return _Form(down, numbers)
    return None


def _rows(array: np.ndarray, anchors: int, numbers: int) -> np.ndarray:
    """Returns a map as float64 rows, (height × width × anchors, numbers)."""
    numbers_last = array.astype(np.float64)
    if array.ndim == len("NCHW") and array.shape[1] == anchors * numbers:
        numbers_last = np.moveaxis(numbers_last, 1, -1)
    return numbers_last.reshape(-1, numbers)


def _counted(classes: int) -> str:
    return f"{classes} class{'es' if classes != 1 else ''}"
