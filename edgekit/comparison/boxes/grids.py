"""Recognizes boxes that are given as offsets from the cells of several grids of the picture.

Each grid has outputs of its own (YuNet, SCRFD, FCOS, PicoDet), or the cells of all grids are rows of one output
(YOLOX).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgekit.comparison.boxes.reading import CORNERS, Cells, Detector, Grid, OnGrids, Rows
from edgekit.comparison.boxes.tables import NEARLY_ALL, SLACK, are_scores, is_sparse, tables_of
from edgekit.model import Arrays

LEAST_ALIKE = 0.5
"""The correlation, as the mean of both axes, from which on centers of boxes follow the cells of a grid. The correlation
of offsets may be below zero, since offsets point towards the object."""
STRIDES = (4, 8, 16, 32, 64, 128)
LARGEST_OFFSET = 20.0
"""The largest offset of a center from its cell, in cells, and the largest logarithm of a size; pixels are larger."""
MOST_ANCHORS = 3
BINS = range(8, 33)
"""How many numbers may encode a distance that is their mean: 8 in PicoDet, 17 in GFL."""


def on_grids(answers: Sequence[Arrays], size: tuple[int, int]) -> Detector | None:
    """Returns how boxes in separate outputs for each of several grids are read, or None if there are none."""
    tables = tables_of(answers)
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
    return detector if is_sparse([detector.all_of(answer).scores[:, None] for answer in answers]) else None


def _grid(rows: int, group: dict[str, list[np.ndarray]], size: tuple[int, int]) -> Grid | None:
    scores = tuple(
        name for name, found in group.items() if found[0].shape[1] != CORNERS and all(map(are_scores, found))
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
    """Returns how many numbers of a row encode each of four offsets; 0 if the width does not fit."""
    bins, rest = divmod(width, CORNERS)
    return bins if rest == 0 and (bins == 1 or bins in BINS) else 0


def cells_of_offsets(tables: Sequence[np.ndarray], size: tuple[int, int]) -> tuple[Cells, ...] | None:
    """Returns the grids whose cells rows are if their first columns are offsets, the finest grid first as in YOLOX.

    Centers of boxes lie near their cells, so that both grow together from row to row; offsets do not. Empty if the
    columns are neither centers nor offsets, and None if they are centers, or if rows are no cells.
    """
    if len({len(table) for table in tables}) > 1:
        return None
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
    """Whether four columns may be offsets of a center, in cells, and logarithms of sizes: no scores, and not large."""
    return bool(np.abs(numbers).max() <= LARGEST_OFFSET) and not any(map(are_scores, numbers.T))


def orders_of_grids(detector: Rows) -> list[Rows]:
    """Returns the detector with the finest grid first, and with it last, since rows do not show which is right.

    With the right order the cells of an object give one box.
    """
    return [detector, *([replace(detector, cells=detector.cells[::-1])] if detector.cells else [])]
