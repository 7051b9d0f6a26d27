"""Non-maximum suppression as nodes of the model, equal to what :mod:`edgekit.comparison.boxes.reading` computes.

The nodes are standard ones, and all shapes behind NonMaxSuppression are fixed. Boxes of all classes go through it
together: the boxes of each class are shifted beyond the reach of the other classes' coordinates (``batched_nms`` of
torchvision), so that boxes of two classes never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.comparison.boxes.reading import CORNERS, LARGEST_EXPONENT, Columns, Detector, Grid, OnGrids, Rows, table_of
from edgekit.features.suppression import MOST_BOXES, Suppression
from edgekit.graph.building import NodeBuilder
from edgekit.model import Arrays, Model

OUTPUT = "detections"
"""The name of the output; underscores are appended if the model has a value of that name."""
SCORE, CLASS, BESIDE = CORNERS, CORNERS + 1, CORNERS + 2
"""The columns behind the corners: score, class, and the first of a box's further numbers."""


def output_name(model: Model) -> str:
    """Returns a name for the output of suppressed boxes that no value of the model has."""
    taken = {value.name for value in (*model.graph.inputs, *model.graph.outputs, *model.graph.initializers.values())}
    taken |= {value.name for node in model.graph.all_nodes() for value in node.outputs}
    name = OUTPUT
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True)
class BoxAttributes:
    """Separate outputs with further numbers of each box, such as key points: one of all rows, or one for each grid."""

    outputs: tuple[str, ...]
    columns: int


def companions(detector: Detector, answer: Arrays) -> tuple[BoxAttributes, ...]:
    """Returns the outputs that have a row for each box and that the detector does not read.

    Args:
        detector: How boxes are read.
        answer: The model's outputs on a sample.
    """
    tables = {name: table_of(array) for name, array in answer.items() if array.dtype.kind == "f"}
    others = {name: table for name, table in tables.items() if name not in detector.outputs and table.ndim == 2}
    if isinstance(detector, Rows):
        rows = len(detector.coordinates.of(answer))
        return tuple(BoxAttributes((name,), table.shape[1]) for name, table in others.items() if len(table) == rows)
    found = []
    rows_of_grids = [len(tables[name]) for name in detector.placing]
    for columns in dict.fromkeys(table.shape[1] for table in others.values()):
        fitting = [[name for name, table in others.items() if table.shape == (rows, columns)] for rows in rows_of_grids]
        if all(len(names) == 1 for names in fitting):
            found.append(BoxAttributes(tuple(names[0] for names in fitting), columns))
    return tuple(found)


def suppressed_rows(detector: Detector, output: str, beside: Sequence[BoxAttributes] = ()) -> Rows:
    """Returns how the boxes of a model with suppression are read.

    Args:
        detector: How the boxes of the model without suppression are read.
        output: The output that holds them.
        beside: Separate outputs with further numbers of each box.
    """
    width = BESIDE + (0 if detector.beside is None else detector.beside.count) + sum(each.columns for each in beside)
    return Rows(
        Columns(output, width, 0, CORNERS),
        have_corners=True,
        scores=Columns(output, width, SCORE, 1),
        classes=Columns(output, width, CLASS, 1),
        are_shares=isinstance(detector, Rows) and detector.are_shares,
        order="xy",
    )


def with_suppression(
    model: Model,
    detector: Detector,
    rows: Mapping[str, int],
    asked: Suppression,
    output: str,
    beside: Sequence[BoxAttributes] = (),
) -> Model:
    """Returns the model with an output of suppressed boxes in place of the outputs that held boxes, before all others.

    The new output is float32, [1, boxes, columns]: left, top, right and bottom in the detector's own unit, score,
    class, then further numbers of a box; the largest score first, and zeros behind the last box. The class that means
    no object is counted, too, if it has a name.

    Args:
        model: A model that tells one picture's boxes.
        detector: How the boxes are read; not suppressed yet.
        rows: How many boxes each output that holds coordinates has.
        asked: What suppression keeps.
        output: The name of the new output.
        beside: Separate outputs with further numbers of each box, which become columns. With grids, pairs of numbers
            are points, as offsets from their cell, and are converted to pixels (YuNet, SCRFD).
    """
    graph_model = model.graph_model.clone()
    graph = graph_model.graph
    build = NodeBuilder(model.opset, f"edgekit/{output}")
    outputs = {str(value.name): build.cast(value, ir.DataType.FLOAT) for value in graph.outputs}
    reading = _Reading(build, outputs, rows, len(model.class_names))
    corners, scores, more = reading.of(detector)
    companions = [*([] if more is None else [more]), *(reading.companion(detector, each) for each in beside)]
    table = _suppressed(build, corners, scores, companions, sum(rows.values()), asked)
    table.name, table.dtype = output, ir.DataType.FLOAT
    table.shape = ir.Shape([1, asked.boxes, suppressed_rows(detector, output, beside).coordinates.width])
    graph.extend(build.nodes)
    for value in build.initializers:
        graph.register_initializer(value)
    gone = {*detector.outputs, *(name for each in beside for name in each.outputs)}
    graph.outputs[:] = [table, *(value for value in graph.outputs if value.name not in gone)]
    return model.with_graph(graph_model)


class _Reading:
    """Nodes that read boxes from outputs.

    Args:
        build: Makes the nodes.
        outputs: The model's outputs by name, float32.
        rows: How many boxes each output that holds coordinates has.
        names: How many classes have names.
    """

    def __init__(
        self, build: NodeBuilder, outputs: Mapping[str, ir.Value], rows: Mapping[str, int], names: int
    ) -> None:
        self._build = build
        self._outputs = outputs
        self._rows = rows
        self._names = names

    def of(self, detector: Detector) -> tuple[ir.Value, ir.Value, ir.Value | None]:
        """Returns corners [rows, 4], x first; scores [rows, classes], 0 to 1; further columns [rows, columns]."""
        if isinstance(detector, OnGrids):
            parts = [self._grid(grid, detector) for grid in detector.grids]
            corners, scores = (self._build("Concat", *each, axis=0) for each in zip(*parts, strict=True))
            return corners, scores, None
        if not isinstance(detector, Rows):
            raise TypeError(f"nodes for {detector.read_as} are not known")
        beside = None if detector.beside is None else self._columns(detector.beside)
        return self._corners(detector), self._scores(detector), beside

    def companion(self, detector: Detector, beside: BoxAttributes) -> ir.Value:
        """Returns the further numbers of each box in separate outputs: [rows, columns]."""
        build = self._build
        tables = [build("Reshape", self._outputs[name], [-1, beside.columns]) for name in beside.outputs]
        if not isinstance(detector, OnGrids):
            return tables[0]
        if beside.columns % 2 == 0:
            origin = detector.origin
            tables = [self._points(*each, origin) for each in zip(detector.grids, tables, strict=True)]
        return build("Concat", *tables, axis=0)

    def _points(self, grid: Grid, offsets: ir.Value, origin: float) -> ir.Value:
        """Converts offsets from cells to pixels."""
        build, rows = self._build, self._rows[grid.boxes]
        height = rows // (grid.width * grid.anchors)
        pairs = build("Reshape", offsets, [height, grid.width, grid.anchors, -1, 2])
        x, y = build.split(pairs, 4, [1, 1])
        columns = np.arange(grid.width, dtype=np.float32).reshape(1, -1, 1, 1, 1) + np.float32(origin)
        lines = np.arange(height, dtype=np.float32).reshape(-1, 1, 1, 1, 1) + np.float32(origin)
        placed = build("Concat", build("Add", x, columns), build("Add", y, lines), axis=4)
        return build("Mul", build("Reshape", placed, [rows, -1]), np.float32(grid.stride))

    def _columns(self, columns: Columns) -> ir.Value:
        build, output = self._build, self._outputs[columns.output]
        if columns.turned:
            table = build("Transpose", build("Reshape", output, [columns.width, -1]), perm=[1, 0])
        else:
            table = build("Reshape", output, [-1, columns.width])
        if columns.count == columns.width:
            return table
        return build.slice(table, [columns.first], [columns.first + columns.count], [1])

    def _corners(self, detector: Rows) -> ir.Value:
        build, placed = self._build, self._columns(detector.coordinates)
        if not detector.have_corners:
            centre, size = build.split(placed, 1, [2, 2])
            if detector.cells:
                cells, strides = (each.astype(np.float32) for each in detector.cells_of_rows())
                centre = build("Mul", build("Add", centre, cells), strides)
                size = build("Mul", self._exponential(size), strides)
            half = build("Mul", size, np.float32(0.5))
            placed = build("Concat", build("Sub", centre, half), build("Add", centre, half), axis=1)
        return build("Gather", placed, [1, 0, 3, 2], axis=1) if detector.order == "yx" else placed

    def _scores(self, detector: Rows) -> ir.Value:
        build, found = self._build, self._columns(detector.scores)
        if detector.activation == "logistic":
            found = build("Sigmoid", found)
        elif detector.activation == "softmax":
            found = build("Softmax", found, axis=1)
        if detector.objectness is not None:
            found = build("Mul", found, self._columns(detector.objectness))
        if detector.background is None:
            return found
        count = detector.scores.count
        objects = [number for number in range(count) if number != detector.background]
        if self._names == count:
            return build("Mul", found, np.isin(np.arange(count), objects).astype(np.float32))
        return build("Gather", found, objects, axis=1)

    def _grid(self, grid: Grid, detector: OnGrids) -> tuple[ir.Value, ir.Value]:
        """See :meth:`Grid.read`: corners and scores."""
        build, rows = self._build, self._rows[grid.boxes]
        height = rows // (grid.width * grid.anchors)
        offsets = build("Reshape", self._offsets(grid), [height, grid.width, grid.anchors, CORNERS])
        numbers = build.split(offsets, 3, [1] * CORNERS)
        columns = np.arange(grid.width, dtype=np.float32).reshape(1, -1, 1, 1) + np.float32(detector.origin)
        lines = np.arange(height, dtype=np.float32).reshape(-1, 1, 1, 1) + np.float32(detector.origin)
        sides = [
            self._sides(cells, numbers[axis], numbers[axis + 2], are_distances=detector.are_distances)
            for axis, cells in enumerate((columns, lines))
        ]
        order = [side[end] for end in (0, 1) for side in sides]
        corners = build("Reshape", build("Concat", *order, axis=3), [rows, CORNERS])
        product = None
        for name in grid.scores:
            table = build("Reshape", self._outputs[name], [rows, -1])
            share = build("Clip", table, np.float32(0), np.float32(1))
            product = share if product is None else build("Mul", product, share)
        assert product is not None
        score = product if len(grid.scores) == 1 else build("Pow", product, np.float32(1 / len(grid.scores)))
        return build("Mul", corners, np.float32(grid.stride)), score

    def _offsets(self, grid: Grid) -> ir.Value:
        """Returns four offsets for each row; with several bins each of them is a mean of distances."""
        build, output = self._build, self._outputs[grid.boxes]
        if grid.bins == 1:
            return output
        shares = build("Softmax", build("Reshape", output, [-1, grid.bins]), axis=1)
        return build("MatMul", shares, np.arange(grid.bins, dtype=np.float32).reshape(-1, 1))

    def _sides(
        self, cells: np.ndarray, first: ir.Value, last: ir.Value, *, are_distances: bool
    ) -> tuple[ir.Value, ir.Value]:
        """Where boxes begin and end along an axis, in cells."""
        build = self._build
        if are_distances:
            return build("Sub", cells, first), build("Add", cells, last)
        centre, half = build("Add", cells, first), build("Mul", self._exponential(last), np.float32(0.5))
        return build("Sub", centre, half), build("Add", centre, half)

    def _exponential(self, logarithms: ir.Value) -> ir.Value:
        """Returns sizes of their logarithms, which are clipped so that they do not overflow."""
        least, most = (np.float32(sign * LARGEST_EXPONENT) for sign in (-1, 1))
        return self._build("Exp", self._build("Clip", logarithms, least, most))


def _suppressed(
    build: NodeBuilder,
    corners: ir.Value,
    scores: ir.Value,
    beside: Sequence[ir.Value],
    rows: int,
    asked: Suppression,
) -> ir.Value:
    """The table of the boxes that stay."""
    count, kept = min(rows, MOST_BOXES), min(rows, asked.boxes)
    best = build.reduce("ReduceMax", scores, [1], keepdims=False)
    kinds = build.cast(build.places_of_greatest(scores, 1), ir.DataType.FLOAT)
    sure, places = build.several(2, "TopK", best, [count], axis=0, largest=1, sorted=1)
    placed = build("Gather", corners, places, axis=0)
    kind = build.unsqueeze(build("Gather", kinds, places, axis=0), [1])

    # A box with a low score may have any size, which would widen the shift of classes and cost other boxes digits.
    counts = build.unsqueeze(build("Greater", sure, np.float32(asked.score)), [1])
    counted = build("Where", counts, placed, np.float32(0))
    reach = build("Sub", *(build.reduce(each, counted, [0, 1]) for each in ("ReduceMax", "ReduceMin")))
    apart = build("Add", counted, build("Mul", kind, build("Add", reach, np.float32(1))))
    selected = build(
        "NonMaxSuppression",
        build.unsqueeze(apart, [0]),
        build.unsqueeze(sure, [0, 1]),
        np.array([kept], np.int64),
        np.array([asked.iou], np.float32),
        np.array([asked.score], np.float32),
    )
    # Only a run shows how many boxes are selected. They are marked in a vector with one more entry than there are
    # candidates, which is always marked, so that no tensor is without elements.
    chosen = build("Concat", build("Reshape", build.slice(selected, [2], [3], [1]), [-1]), [count], axis=0)
    marks = build("Expand", np.ones(1, np.float32), build("Shape", chosen))
    stays = build("ScatterElements", np.zeros(count + 1, np.float32), chosen, marks, axis=0)
    left = build("Mul", sure, build.slice(stays, [0], [count], [0]))
    score, order = build.several(2, "TopK", left, [kept], axis=0, largest=1, sorted=1)
    parts = [placed, build.unsqueeze(sure, [1]), kind, *(build("Gather", each, places, axis=0) for each in beside)]
    table = build("Gather", build("Concat", *parts, axis=1), order, axis=0)
    table = build("Where", build("Greater", build.unsqueeze(score, [1]), np.float32(0)), table, np.float32(0))
    if kept < asked.boxes:
        table = build.pad(table, [0, 0, asked.boxes - kept, 0])
    return build.unsqueeze(table, [0])
