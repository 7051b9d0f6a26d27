"""How a detector's outputs are read as boxes, and how a manifest tells it to readers in other languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from edgekit.comparison.boxes.matching import DOUBTFUL, SAME_OBJECT, Boxes
from edgekit.features.declared_outputs import Order
from edgekit.model import Arrays

CORNERS = 4
LARGEST_EXPONENT = 20.0

Activation = Literal["none", "logistic", "softmax"]


class Reading(Protocol):
    """How a detector's outputs are read; can be pickled."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that describe what the detector finds."""

    @property
    def placing(self) -> tuple[str, ...]:
        """The outputs that hold coordinates, or offsets."""

    @property
    def read_as(self) -> str:
        """What the outputs hold, in words."""


class Detector(Reading, Protocol):
    """How boxes are read from outputs."""

    @property
    def beside(self) -> Columns | None:
        """The columns of a box's further numbers, beside its place, scores and class; None if there are none."""

    def read(self, outputs: Arrays, least: float = DOUBTFUL, overlap: float = SAME_OBJECT) -> Boxes:
        """Returns a sample's suppressed boxes, the largest score first, in the outputs' own unit and order of axes.

        Args:
            outputs: The outputs by name.
            least: The score from which on a box counts.
            overlap: Of boxes of a class that overlap by more, the one with the largest score is kept.
        """

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest, by which another program can read the same boxes."""


def table_of(array: np.ndarray) -> np.ndarray:
    """An output without the axes of size one in front, float64."""
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    return array.astype(np.float64)


@dataclass(frozen=True)
class Columns:
    """Adjacent columns of an output that is a table."""

    output: str
    width: int
    """How many numbers a row has."""
    first: int
    count: int
    turned: bool = False
    """Whether the output holds column after column in place of row after row."""

    def of(self, outputs: Arrays) -> np.ndarray:
        """Returns the columns as (rows, count) float64."""
        numbers = outputs[self.output].astype(np.float64)
        table = numbers.reshape(self.width, -1).T if self.turned else numbers.reshape(-1, self.width)
        return table[:, self.first : self.first + self.count]


@dataclass(frozen=True)
class Cells:
    """A grid of the picture whose cells are consecutive rows, line by line."""

    stride: int
    """Pixels from cell to cell."""
    width: int
    """Cells in a row."""
    height: int

    def places(self) -> np.ndarray:
        """Returns x and y of each cell, in cells: (rows, 2) int64."""
        return np.indices((self.height, self.width))[::-1].reshape(2, -1).T


@dataclass(frozen=True)
class Rows:
    """Boxes with a row each, in one output or in the same row of several."""

    coordinates: Columns
    have_corners: bool
    """Whether coordinates are left, top, right and bottom; else they are center and size."""
    scores: Columns
    """One score for each class; a single score if :attr:`classes` tells the class."""
    activation: Activation = "none"
    """What turns the numbers into scores from 0 to 1: the logistic function of each, or softmax over a row."""
    background: int | None = None
    """The class that means no object, which is removed before the other classes are numbered."""
    objectness: Columns | None = None
    """Whether there is an object: a factor of all scores."""
    classes: Columns | None = None
    """The class of each box after suppression; None before it, where the largest score tells the class."""
    are_shares: bool = False
    """Whether coordinates are shares of the input's width and height; else they are its pixels."""
    order: Order | None = "xy"
    """Which coordinate comes first; None if unknown."""
    cells: tuple[Cells, ...] = ()
    """The grids whose cells are the rows, one grid after the other; coordinates are then the offset of the center from
    the cell and the logarithms of the size, in cells (YOLOX: Ge et al., 2021, arXiv:2107.08430)."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        parts = (self.coordinates, self.scores, self.objectness, self.classes)
        return tuple(dict.fromkeys(part.output for part in parts if part is not None))

    @property
    def placing(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return (self.coordinates.output,)

    @property
    def beside(self) -> Columns | None:
        """See :class:`Detector`: the columns behind all others, if there is one output."""
        parts = [part for part in (self.coordinates, self.scores, self.classes) if part is not None]
        first = max(part.first + part.count for part in parts)
        if len(self.outputs) > 1 or first >= self.scores.width:
            return None
        return replace(self.scores, first=first, count=self.scores.width - first)

    @property
    def read_as(self) -> str:
        """See :class:`Detector`."""
        form = "corners" if self.have_corners else "centre and size"
        placed = f"{form} {'as shares' if self.are_shares else 'in pixels'} of the input"
        if self.cells:
            placed = f"offsets from the cells of {len(self.cells)} grids of the picture"
        if self.order == "yx":
            placed += ", y first,"
        if self.classes is not None:
            columns = f"{placed}, score and class of each box"
            return f"{columns}, {'after' if len(self.outputs) == 1 else 'in an output each, after'} suppression"
        count = self.scores.count - (self.background is not None)
        classes = f"{count} class{'es' if count != 1 else ''}"
        place = "in one output" if len(self.outputs) == 1 else "in an output each"
        return f"{placed} and {classes} of each box, {place}"

    def all_scores(self, outputs: Arrays) -> np.ndarray:
        """Returns the scores, (rows, classes) from 0 to 1, without the background."""
        found = self.scores.of(outputs)
        if self.activation == "logistic":
            found = 1 / (1 + np.exp(-found))
        elif self.activation == "softmax":
            powers = np.exp(found - found.max(axis=1, keepdims=True))
            found = powers / powers.sum(axis=1, keepdims=True)
        found = found if self.objectness is None else found * self.objectness.of(outputs)
        return found if self.background is None else np.delete(found, self.background, axis=1)

    def read(self, outputs: Arrays, least: float = DOUBTFUL, overlap: float = SAME_OBJECT) -> Boxes:
        """See :class:`Detector`."""
        placed = self._in_pixels(self.coordinates.of(outputs)) if self.cells else self.coordinates.of(outputs)
        if not self.have_corners:
            placed = corners_of(placed[:, :2], placed[:, 2:])
        scores = self.all_scores(outputs)
        beside = None if self.beside is None else self.beside.of(outputs)
        if self.classes is None:
            return replace(best_class(placed, scores), beside=beside).suppressed(least, overlap)
        kinds = self.classes.of(outputs)[:, 0].astype(int)
        return Boxes(placed, scores[:, 0], kinds, beside).without_weak(least)

    def _in_pixels(self, offsets: np.ndarray) -> np.ndarray:
        """Returns center and size in pixels for offsets from cells."""
        cells, strides = self.cells_of_rows()
        size = np.exp(np.clip(offsets[:, 2:], -LARGEST_EXPONENT, LARGEST_EXPONENT))
        placed: np.ndarray = np.hstack([cells + offsets[:, :2], size]) * strides
        return placed

    def cells_of_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the cell of each row (rows, 2), x first, in cells, and the cell's stride (rows, 1), in pixels."""
        places = [grid.places() for grid in self.cells]
        strides = [np.full((len(each), 1), grid.stride) for each, grid in zip(places, self.cells, strict=True)]
        return np.concatenate(places), np.concatenate(strides)

    def as_record(self) -> dict[str, Any]:
        """See :class:`Detector`."""
        return {
            "form": "rows",
            "suppressed": self.classes is not None,
            "coordinates": asdict(self.coordinates),
            "coordinates_are": self._coordinates_are,
            "unit": "share" if self.are_shares else "pixel",
            "order": self.order,
            "scores": asdict(self.scores),
            "activation": self.activation,
            "background": self.background,
            "objectness": None if self.objectness is None else asdict(self.objectness),
            "classes": None if self.classes is None else asdict(self.classes),
            "cells": list(map(asdict, self.cells)) or None,
        }

    @property
    def _coordinates_are(self) -> str:
        if self.cells:
            return "offset_and_log_size"
        return "corners" if self.have_corners else "centre_and_size"


@dataclass(frozen=True)
class Grid:
    """The outputs of one grid of the picture."""

    stride: int
    """Pixels from cell to cell."""
    width: int
    """Cells in a row."""
    anchors: int
    """The number of boxes of each cell."""
    boxes: str
    scores: tuple[str, ...]
    """Outputs whose geometric mean is the score: one with the classes, one that says whether there is an object."""
    bins: int = 1
    """How many numbers encode each of the four offsets. If there are several, their softmax gives the probabilities of
    the distances 0, 1, 2 and so on, whose mean is the offset (GFL: Li et al., 2020, arXiv:2006.04388)."""

    def read(self, outputs: Arrays, *, are_distances: bool, origin: float, least: float | None = None) -> Boxes:
        """Returns the boxes in pixels, from distances of their sides, or from an offset and logarithms of a size.

        Args:
            outputs: The outputs by name.
            are_distances: Whether the four numbers are distances.
            origin: See :attr:`OnGrids.origin`.
            least: The least score of any class with which a box is returned; None returns all boxes.
        """
        scores = np.ones(1)
        for name in self.scores:
            scores = scores * np.clip(table_of(outputs[name]), 0, 1)
        scores = scores ** (1 / len(self.scores))
        rows = np.arange(len(scores)) if least is None else np.flatnonzero((scores >= least).any(axis=1))
        offsets = self._offsets(table_of(outputs[self.boxes])[rows])
        y, x = np.divmod(rows // self.anchors, self.width)
        cells = np.stack([x, y], axis=1) + origin
        if are_distances:
            corners = np.hstack([cells - offsets[:, :2], cells + offsets[:, 2:]])
        else:
            centres = cells + offsets[:, :2]
            corners = corners_of(centres, np.exp(np.clip(offsets[:, 2:], -LARGEST_EXPONENT, LARGEST_EXPONENT)))
        return best_class(corners * self.stride, scores[rows])

    def _offsets(self, table: np.ndarray) -> np.ndarray:
        """Returns the four offsets of each row, (rows, 4)."""
        return table if self.bins == 1 else mean_distances(table, self.bins)


@dataclass(frozen=True)
class OnGrids:
    """Offsets from the cells of several grids, with scores of the same rows."""

    grids: tuple[Grid, ...]
    are_distances: bool
    origin: float = 0.0
    """Where in its cell an offset begins, as a share of the cell: its corner (SCRFD), or its middle (FCOS, PicoDet)."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return tuple(name for grid in self.grids for name in (grid.boxes, *grid.scores))

    @property
    def placing(self) -> tuple[str, ...]:
        """See :class:`Detector`."""
        return tuple(grid.boxes for grid in self.grids)

    @property
    def beside(self) -> Columns | None:
        """See :class:`Detector`: nothing."""
        return None

    @property
    def read_as(self) -> str:
        """See :class:`Detector`."""
        return f"offsets from {len(self.grids)} grids of the picture"

    def all_of(self, outputs: Arrays, least: float | None = None) -> Boxes:
        """Returns the boxes before suppression; with ``least``, only boxes with a class of at least that score."""
        return joined(
            [
                grid.read(outputs, are_distances=self.are_distances, origin=self.origin, least=least)
                for grid in self.grids
            ]
        )

    def read(self, outputs: Arrays, least: float = DOUBTFUL, overlap: float = SAME_OBJECT) -> Boxes:
        """See :class:`Detector`."""
        return self.all_of(outputs, least).suppressed(least, overlap)

    def as_record(self) -> dict[str, Any]:
        """See :class:`Detector`."""
        return {
            "form": "grids",
            "suppressed": False,
            "offsets": "distances" if self.are_distances else "centre_and_log_size",
            "origin": self.origin,
            "grids": [{**asdict(grid), "scores": list(grid.scores)} for grid in self.grids],
        }


def detector_of(record: Mapping[str, Any]) -> Detector:
    """Returns how boxes are read, from a manifest's record: see :meth:`Detector.as_record`.

    Raises:
        ValueError: The record is of a form that is not known.
    """
    if record["form"] == "grids":
        grids = tuple(Grid(**{**grid, "scores": tuple(grid["scores"])}) for grid in record["grids"])
        return OnGrids(grids, record["offsets"] == "distances", record.get("origin", 0.0))  # absent in older bundles
    if record["form"] != "rows":
        raise ValueError(f"boxes of the form {record['form']!r} are not known")
    objectness, classes = (None if record[key] is None else Columns(**record[key]) for key in ("objectness", "classes"))
    return Rows(
        Columns(**record["coordinates"]),
        record["coordinates_are"] == "corners",
        Columns(**record["scores"]),
        record["activation"],
        record["background"],
        objectness,
        classes,
        are_shares=record["unit"] == "share",
        order=record["order"],
        cells=tuple(Cells(**grid) for grid in record.get("cells") or ()),  # absent in older bundles
    )


def best_class(corners: np.ndarray, scores: np.ndarray) -> Boxes:
    """Returns a box for each row, of the class with the largest score: corners (n, 4) and scores (n, classes)."""
    classes = scores.argmax(axis=1)
    return Boxes(corners, scores[np.arange(len(scores)), classes], classes, known_classes=scores.shape[1])


def mean_distances(logits: np.ndarray, bins: int) -> np.ndarray:
    """Returns distances (n, 4) of (n, 4 × bins): the softmax-weighted mean of the distances 0, 1, 2 and so on."""
    numbers = logits.reshape(-1, CORNERS, bins)
    powers = np.exp(numbers - numbers.max(axis=2, keepdims=True))
    found: np.ndarray = powers @ np.arange(bins) / powers.sum(axis=2)
    return found


def corners_of(centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns left, top, right and bottom (n, 4) of centers and sizes, (n, 2) each."""
    return np.hstack([centres - sizes / 2, centres + sizes / 2])


def joined(parts: Sequence[Boxes]) -> Boxes:
    """The boxes of all parts, one part after the other."""
    return Boxes(
        np.concatenate([part.corners for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.classes for part in parts]),
        known_classes=parts[0].known_classes,
    )
