"""Suppression as nodes of the model, against suppression written out box by box."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import pytest

from edgekit.comparison.boxes import reading
from edgekit.comparison.boxes.reading import Cells, Columns, Detector, Grid, OnGrids, Rows, detector_of
from edgekit.comparison.boxes.suppression import (
    BoxAttributes,
    companions,
    output_name,
    suppressed_rows,
    with_suppression,
)
from edgekit.execution.reference import Reference
from edgekit.features.suppression import Suppression
from edgekit.model import Arrays, Model
from edgekit.stages.load import Load

ROWS, CLASSES = 300, 3
Found = list[tuple[float, ...]]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def model_of(outputs: Arrays, tmp_path_factory: pytest.TempPathFactory, names: int = 0) -> Model:
    """Returns a model that gives its inputs under the names of the outputs."""
    from dataclasses import replace

    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(f"in_{name}", 1, array.shape) for name, array in outputs.items()]
    results = [helper.make_tensor_value_info(name, 1, array.shape) for name, array in outputs.items()]
    nodes = [helper.make_node("Identity", [f"in_{name}"], [name]) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results)
    path = tmp_path_factory.mktemp("boxes") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return replace(Load()(path).model, class_names=tuple(f"c{number}" for number in range(names)))


def run(model: Model, outputs: Arrays) -> Arrays:
    return Reference(model).run({f"in_{name}": array for name, array in outputs.items()})


def kept(boxes: Iterable[tuple[float, ...]], asked: Suppression) -> Found:
    """Greedy suppression by class of (left, top, right, bottom, score, class, …)."""
    left: Found = []
    for box in sorted(boxes, key=lambda each: -each[4]):
        if box[4] > asked.score and all(each[5] != box[5] or iou(box, each) <= asked.iou for each in left):
            left.append(box)
    return left[: asked.boxes]


def iou(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    width = max(min(one[2], other[2]) - max(one[0], other[0]), 0)
    height = max(min(one[3], other[3]) - max(one[1], other[1]), 0)
    areas = [(each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)]
    return width * height / (sum(areas) - width * height)


def corners_and_scores(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Many boxes one over another, of all classes: (rows, 4) in pixels, (rows, classes)."""
    low = rng.uniform(-5, 40, (ROWS, 2))
    return np.hstack([low, low + rng.uniform(4, 30, (ROWS, 2))]), rng.uniform(0, 1, (ROWS, CLASSES)) ** 3


def listed(corners: np.ndarray, scores: np.ndarray, *more: np.ndarray) -> Found:
    columns = [corners, scores.max(axis=1)[:, None], scores.argmax(axis=1)[:, None], *more]
    return [tuple(map(float, row)) for row in np.hstack(columns)]


def require(found: np.ndarray, expected: Found, boxes: int) -> None:
    assert found.dtype == np.float32
    assert found.shape[:2] == (1, boxes)
    assert 0 < len(expected) <= boxes
    np.testing.assert_allclose(found[0, : len(expected)], expected, rtol=1e-5, atol=1e-4)
    assert not found[0, len(expected) :].any()


@pytest.mark.parametrize("asked", [Suppression(), Suppression(0.3, 0.4, 20), Suppression(0.9, 0.0, 500)], ids=str)
def test_columns_of_centre_and_size(
    asked: Suppression, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """YOLOv8's form, with key points behind the scores."""
    corners, scores = corners_and_scores(rng)
    points = rng.normal(size=(ROWS, 6))
    centred = np.hstack([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]])
    outputs = {"y": np.hstack([centred, scores, points]).T[np.newaxis].astype(np.float32)}
    width = 4 + CLASSES + 6
    detector = Rows(Columns("y", width, 0, 4, True), False, Columns("y", width, 4, CLASSES, True))
    model = with_suppression(model_of(outputs, tmp_path_factory), detector, {"y": ROWS}, asked, "detections")
    onnx.checker.check_model(model.proto(), full_check=True)
    (found,) = run(model, outputs).values()
    expected = kept(listed(corners, scores, points), asked)
    require(found, expected, asked.boxes)
    read = suppressed_rows(detector, "detections").read({"detections": found}, least=0.5)
    np.testing.assert_allclose(read.corners, [each[:4] for each in expected if each[4] >= 0.5], rtol=1e-5, atol=1e-4)
    assert read.beside is not None
    assert read.beside.shape == (len(read), 6)


@pytest.mark.parametrize("activation", ["none", "logistic", "softmax"])
@pytest.mark.parametrize("names", [0, CLASSES + 1])
def test_boxes_and_scores_of_their_own(
    activation: str, names: int, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """y comes first, and the first class stands for nothing; where it has a name it is counted, as in the names."""
    corners, scores = corners_and_scores(rng)
    given = np.hstack([np.full((ROWS, 1), 0.1), scores / (1 + scores.sum(axis=1, keepdims=True))])
    if activation == "logistic":
        given = np.log(given / (1 - given))
    elif activation == "softmax":
        given = np.log(np.hstack([1 - given[:, 1:].sum(axis=1, keepdims=True), given[:, 1:]])) - 3
    outputs = {
        "scores": given[np.newaxis].astype(np.float32),
        "more": np.ones((1, 2), np.float32),
        "masks": rng.normal(size=(1, ROWS, 5)).astype(np.float32),
        "boxes": corners[np.newaxis][..., [1, 0, 3, 2]].astype(np.float32),
    }
    boxes, columns = Columns("boxes", 4, 0, 4), Columns("scores", CLASSES + 1, 0, CLASSES + 1)
    detector = Rows(boxes, True, columns, activation, background=0, order="yx")  # type: ignore[arg-type]
    model = model_of(outputs, tmp_path_factory, names)
    beside = companions(detector, outputs)
    assert beside == (BoxAttributes(("masks",), 5),)
    model = with_suppression(model, detector, {"boxes": ROWS}, Suppression(), output_name(model), beside)
    found = run(model, outputs)
    assert list(found) == ["detections", "more"]
    shares = scores / (1 + scores.sum(axis=1, keepdims=True))
    expected = kept(listed(corners, shares, outputs["masks"][0]), Suppression())
    require(found["detections"], [(*each[:5], each[5] + (names > 0), *each[6:]) for each in expected], 100)


@pytest.mark.parametrize(
    ("are_distances", "origin", "bins"), [(True, 0.0, 1), (True, 0.5, 1), (True, 0.5, 8), (False, 0.0, 1)]
)
def test_offsets_from_grids(
    are_distances: bool, origin: float, bins: int, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A cell tells two boxes, with a score for each class, one that says whether there is anything, and two points."""
    outputs: Arrays = {}
    boxes: Found = []
    grids, marks = [], []
    for stride, across, down in ((8, 8, 6), (16, 4, 3)):
        count = across * down * 2
        told = offsets = rng.uniform(0.2, 1.5, (1, count, 4))
        if bins > 1:
            told = rng.normal(size=(1, count, 4 * bins))
            shares = np.exp(told.reshape(1, count, 4, bins))
            offsets = (shares * np.arange(bins)).sum(axis=3) / shares.sum(axis=3)
        kinds, there = rng.uniform(0, 1, (1, count, 2)), rng.uniform(-0.2, 1.2, (1, count, 1))
        for row in range(count):
            y, x = (each + origin for each in divmod(row // 2, across))
            one, two, three, four = offsets[0, row]
            if are_distances:
                place = [x - one, y - two, x + three, y + four]
            else:
                half = np.exp([three, four]) / 2
                place = [x + one - half[0], y + two - half[1], x + one + half[0], y + two + half[1]]
            score = np.sqrt(kinds[0, row] * np.clip(there[0, row], 0, 1))
            boxes.append((*(stride * side for side in place), score.max(), float(score.argmax())))
        points = rng.uniform(-1, 1, (1, count, 4))
        cells = np.stack(np.divmod(np.arange(count) // 2, across)[::-1], axis=1) + origin
        marks += [tuple(stride * (np.tile(cell, 2) + point)) for cell, point in zip(cells, points[0], strict=True)]
        named = {f"box{stride}": told, f"kind{stride}": kinds, f"there{stride}": there, f"mark{stride}": points}
        outputs |= {name: array.astype(np.float32) for name, array in named.items()}
        grids.append(Grid(stride, across, 2, f"box{stride}", (f"kind{stride}", f"there{stride}"), bins))
    detector = OnGrids(tuple(grids), are_distances, origin)
    rows = {"box8": 96, "box16": 24}
    beside = companions(detector, outputs)
    assert beside == (BoxAttributes(("mark8", "mark16"), 4),)
    model = with_suppression(model_of(outputs, tmp_path_factory), detector, rows, Suppression(), "detections", beside)
    (found,) = run(model, outputs).values()
    expected = [(*box, *mark) for box, mark in zip(boxes, marks, strict=True)]
    require(found, kept(expected, Suppression()), 100)


def test_only_boxes_that_count_are_decoded(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = reading.mean_distances

    def counted(logits: np.ndarray, bins: int) -> np.ndarray:
        decoded.append(len(logits))
        return decode(logits, bins)

    monkeypatch.setattr(reading, "mean_distances", counted)
    scores = rng.uniform(0, 0.2, (1, 96, 2)).astype(np.float32)
    scores[0, 5, 1], scores[0, 50, 0] = 0.9, 0.6
    outputs = {"box": rng.uniform(-2, 2, (1, 96, 32)).astype(np.float32), "kind": scores}
    detector = OnGrids((Grid(8, 12, 1, "box", ("kind",), 8),), are_distances=True)

    found = detector.read(outputs, least=0.5)

    assert decoded == [2]
    assert (found.scores.astype(np.float32) == [np.float32(0.9), np.float32(0.6)]).all()
    every = detector.all_of(outputs)
    assert len(every) == decoded[1] == 96
    assert np.allclose(found.corners, every.corners[[5, 50]], rtol=0, atol=1e-9)
    assert found.classes.tolist() == [1, 0]


@pytest.mark.parametrize("descending", [False, True])
def test_offsets_from_the_cells_of_rows(
    descending: bool, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """YOLOX without decoding: a row a cell of grids of 64 by 48 pixels, one grid after the other."""
    grids = [Cells(8, 8, 6), Cells(16, 4, 3)][:: -1 if descending else 1]
    boxes: Found = []
    table = rng.uniform(0, 1, (60, 7))
    table[:, :4] = rng.uniform(-1, 1.5, (60, 4))
    rows = iter(table)
    for grid in grids:
        for y, x in itertools.product(range(grid.height), range(grid.width)):
            one, two, three, four, there, *kinds = next(rows)
            half = np.exp([three, four]) / 2
            place = [x + one - half[0], y + two - half[1], x + one + half[0], y + two + half[1]]
            boxes.append((*(grid.stride * side for side in place), there * max(kinds), float(np.argmax(kinds))))
    outputs = {"y": table[np.newaxis].astype(np.float32)}
    there = Columns("y", 7, 4, 1)
    detector = Rows(
        Columns("y", 7, 0, 4), False, Columns("y", 7, 5, 2), objectness=there, order="xy", cells=tuple(grids)
    )
    model = with_suppression(model_of(outputs, tmp_path_factory), detector, {"y": 60}, Suppression(), "detections")
    (found,) = run(model, outputs).values()
    require(found, kept(boxes, Suppression()), 100)


def test_nothing_is_found(rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory) -> None:
    corners, scores = corners_and_scores(rng)
    outputs = {"y": np.hstack([corners, scores * 0.01])[np.newaxis].astype(np.float32)}
    detector = Rows(Columns("y", 7, 0, 4), True, Columns("y", 7, 4, CLASSES))
    model = with_suppression(model_of(outputs, tmp_path_factory), detector, {"y": ROWS}, Suppression(), "d")
    (found,) = run(model, outputs).values()
    assert found.shape == (1, 100, 6)
    assert not found.any()


def detectors() -> Mapping[str, Detector]:
    boxes, scores, there = Columns("y", 9, 0, 4), Columns("y", 9, 5, 4), Columns("y", 9, 4, 1)
    return {
        "objectness": Rows(boxes, False, scores, "softmax", 3, objectness=there, are_shares=True, order="yx"),
        "classes": Rows(boxes, True, there, classes=Columns("y", 9, 5, 1)),
        "cells": Rows(boxes, False, scores, objectness=there, cells=(Cells(8, 4, 2), Cells(16, 2, 1))),
        "grids": OnGrids((Grid(8, 4, 1, "a", ("b", "c"), 8),), True, 0.5),
    }


@pytest.mark.parametrize("form", ["objectness", "classes", "cells", "grids"])
def test_a_detector_is_read_from_its_record(form: str) -> None:
    detector = detectors()[form]
    assert detector_of(detector.as_record()) == detector


def test_the_output_has_a_name_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    outputs = {"detections": np.ones((1, 8, 6), np.float32)}
    assert output_name(model_of(outputs, tmp_path_factory)) == "detections_"


@pytest.mark.parametrize("size", [1e9, np.inf])
def test_boxes_of_no_account_may_have_any_size(
    size: float, rng: np.random.Generator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Sizes that are powers of e have no bound where nothing is found; the other boxes keep their digits."""
    corners, scores = corners_and_scores(rng)
    scores[100:] *= 0.04
    corners[100:, 2:] = size
    outputs = {"y": np.hstack([corners, scores])[np.newaxis].astype(np.float32)}
    detector = Rows(Columns("y", 7, 0, 4), True, Columns("y", 7, 4, CLASSES))
    model = with_suppression(model_of(outputs, tmp_path_factory), detector, {"y": ROWS}, Suppression(), "d")
    (found,) = run(model, outputs).values()
    require(found, kept(listed(corners, scores), Suppression()), 100)
