"""Boxes that are told as offsets from the cells of grids, against boxes by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgekit.comparison.boxes.detectors import recognised
from edgekit.comparison.meaning import meaning_of
from edgekit.model import Arrays, ValueSpec

PICTURE = (ValueSpec("image", "float32", (1, 3, 64, 64)),)


@pytest.mark.parametrize("distances", [True, False])
def test_offsets_from_grids_are_boxes(distances: bool) -> None:
    def answer(move: float) -> Arrays:
        outputs: Arrays = {}
        for stride, cell, size in ((8, 19, 24.0), (16, 6, 40.0)):
            cells = (64 // stride) ** 2
            scores, offsets = np.full((1, cells, 1), 0.01), np.zeros((1, cells, 4))
            offsets[..., 2:] = 0.1
            scores[0, cell] = 0.9
            half = size / 2 / stride
            if distances:
                offsets[0, cell] = np.array([half - move, half, half + move, half])
            else:
                offsets[0, cell] = [move, 0.0, np.log(2 * half), np.log(2 * half)]
            outputs[f"a{stride}"], outputs[f"b{stride}"] = scores.astype(np.float32), offsets.astype(np.float32)
            outputs[f"c{stride}"] = np.full((1, cells, 1), 0.8, np.float32)
        return outputs

    meaning = meaning_of([answer(0.0)], PICTURE)
    assert meaning is not None
    meaning.add(answer(0.0), answer(0.05))
    meaning.add(answer(0.0), answer(3.0))
    found = meaning.result()
    assert set(found.outputs) == {"a8", "b8", "c8", "a16", "b16", "c16"}
    assert (found.count, found.wrong) == (8, 4)


def yolox(rng: np.random.Generator, strides: tuple[int, ...], *, decoded: bool) -> Arrays:
    """Four cells around the middle of each object tell its box, in a picture of 160 by 96 pixels.

    What a cell tells is the offset of the centre and the logarithm of the size, in cells, or the box that it means.
    """
    cells = np.concatenate([np.indices((96 // each, 160 // each)).reshape(2, -1)[::-1].T for each in strides])
    stride = np.repeat(strides, [(160 // each) * (96 // each) for each in strides])[:, None]
    scores = rng.uniform(0, 0.05, (len(cells), 4))
    offsets, sizes = rng.uniform(-0.5, 1.5, (len(cells), 2)), rng.uniform(-0.02, 1.5, (len(cells), 2))
    for left, top, right, bottom, kind, each in YOLOX_OBJECTS:
        centre, size = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top])
        near = np.flatnonzero((stride[:, 0] == each) & (np.abs(centre / each - cells - 0.5) < 1).all(axis=1))
        assert len(near) == 4
        offsets[near], sizes[near] = centre / each - cells[near], np.log(size / each)
        scores[near, 0], scores[near, 1 + kind] = 0.9, 0.8
    boxes = [(offsets + cells) * stride, np.exp(sizes) * stride] if decoded else [offsets, sizes]
    return {"output": np.hstack([*boxes, scores])[np.newaxis].astype(np.float32)}


YOLOX_OBJECTS = [(10, 12, 34, 30, 0, 8), (40, 12, 90, 72, 2, 16), (60, 20, 150, 90, 1, 32), (100, 50, 120, 80, 2, 8)]
"""Corners, class, and the stride of the grid that finds it."""


@pytest.mark.parametrize("strides", [(8, 16, 32), (32, 16, 8)])
@pytest.mark.parametrize("decoded", [True, False])
def test_offsets_of_rows_that_are_cells_tell_boxes(strides: tuple[int, ...], decoded: bool) -> None:
    """YOLOX decodes its boxes in the model, or leaves that to the app."""
    picture = (ValueSpec("image", "float32", (1, 3, 96, 160)),)
    answers = [yolox(np.random.default_rng(seed), strides, decoded=decoded) for seed in range(4)]
    for classes in (3,) if decoded else (3, None):
        detector = recognised(answers, picture, classes)
        assert detector is not None
        assert ("grids" in detector.read_as) is not decoded
        found = detector.read(answers[0])
        places = sorted(map(tuple, np.hstack([found.corners, found.classes[:, None]]).tolist()))
        np.testing.assert_allclose(places, sorted(each[:5] for each in YOLOX_OBJECTS), atol=1e-4)
        np.testing.assert_allclose(found.scores, 0.72, rtol=1e-6)
        if not decoded:
            record = detector.as_record()
            assert record["coordinates_are"] == "offset_and_log_size"
            assert record["cells"] == [{"stride": each, "width": 160 // each, "height": 96 // each} for each in strides]


def test_a_row_a_cell_of_what_is_no_offset_tells_no_boxes() -> None:
    """Rows of shares first (NanoDet), and of large numbers."""
    picture = (ValueSpec("image", "float32", (1, 3, 96, 160)),)
    answers = [yolox(np.random.default_rng(seed), (8, 16, 32), decoded=False)["output"] for seed in range(4)]
    for change in (lambda numbers: 1 / (1 + np.exp(-numbers)), lambda numbers: numbers * 30):
        changed = [np.concatenate([change(each[..., :4]), each[..., 4:]], axis=2) for each in answers]
        assert meaning_of([{"output": each} for each in changed], picture, 3) is None


def test_offsets_from_grids_are_recorded() -> None:
    def table(cells: int, numbers: list[float]) -> np.ndarray:
        found = np.tile(np.array(numbers, np.float32), (1, cells, 1))
        found[0, 3] = 0.9
        return found

    outputs = {
        f"{kind}{stride}": table((64 // stride) ** 2, [0.1] * count)
        for stride in (8, 16)
        for kind, count in (("box", 4), ("score", 1))
    }
    meaning = meaning_of([outputs], PICTURE)
    assert meaning is not None
    assert meaning.result().as_record()["boxes"] == {
        "form": "grids",
        "suppressed": False,
        "offsets": "distances",
        "origin": 0.0,
        "grids": [
            {"stride": 8, "width": 8, "anchors": 1, "boxes": "box8", "scores": ["score8"], "bins": 1},
            {"stride": 16, "width": 4, "anchors": 1, "boxes": "box16", "scores": ["score16"], "bins": 1},
        ],
    }
