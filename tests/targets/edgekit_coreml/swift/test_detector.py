"""A detector's package finds boxes in a picture, in each form in which detectors write them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from PIL import Image

from edgekit.bundle import read_bundle
from edgekit.comparison.boxes.detectors import recognised
from edgekit.model import ValueSpec
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.preprocessing.image import ImagePreprocessing
from edgekit.progress import Progress

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


HEIGHT, WIDTH, SIDE = 32, 64, 128
"""The detectors' input, and the pictures, which become 32×32 in the middle of it."""
ROWS = 400
LABELS = ("bird", "dog", "cat")


def detector(form: str) -> onnx.ModelProto:
    """Puts a bird of 12×8 pixels at the brightest place, and a cat of 6×10 beside it; both in several rows."""
    rng = np.random.default_rng(3)
    moved, sizes = rng.uniform(-16, 16, (ROWS, 2)), rng.uniform(2, 16, (ROWS, 2))
    scores = rng.uniform(0, 0.05, (ROWS, 3))
    for row in range(7):
        kind, size, away = (0, (12, 8), (0, 0)) if row < 4 else (2, (6, 10), (7, 3))
        moved[row], sizes[row] = np.array(away) + rng.uniform(-0.4, 0.4, 2), size
        scores[row, kind] = 0.9 - 0.05 * row
    constants: dict[str, np.ndarray] = {
        "columns": np.arange(WIDTH)[None, :] + 0.5,
        "lines": np.arange(HEIGHT)[:, None] + 0.5,
        "moved": moved[None],
        "half": sizes[None] / 2,
        "sizes": sizes[None],
        "scores": scores[None],
        "tiny": np.array(1e-4),
        "background": np.array([[0.9]]),
        "shares": np.array([HEIGHT, WIDTH, HEIGHT, WIDTH], float),
        "both": np.array([[0.9, 0.0], [0.7, 2.0], [0.0, 0.0]])[None],
        "chosen": np.array([0, 4, 9]),
        "turned": np.array([1, 0, 3, 2]),
        "nothing": 1 - scores.sum(axis=1, keepdims=True)[None],
    }
    text = """<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 32, 64] x) => (OUTPUTS) {
        bright = ReduceMean<axes = [1], keepdims = 0>(x)
        all = ReduceSum(bright)
        atx = Mul(bright, columns) sumx = ReduceSum(atx) cx = Div(sumx, all)
        aty = Mul(bright, lines) sumy = ReduceSum(aty) cy = Div(sumy, all)
        centre = Concat<axis = 2>(cx, cy)
        centres = Add(centre, moved)
        low = Sub(centres, half) high = Add(centres, half) corners = Concat<axis = 2>(low, high)
        little = Mul(all, tiny)
        BODY }"""
    bodies = {
        "columns": (
            "float[1, 7, 400] y",
            "told = Add(scores, little) still = Add(sizes, little) rows = Concat<axis = 2>(centres, still, told)"
            " y = Transpose<perm = [0, 2, 1]>(rows)",
        ),
        "suppressed": (
            "float[1, 3, 6] y",
            "found = Gather<axis = 1>(corners, chosen) y = Concat<axis = 2>(found, both)",
        ),
        "beside": (
            "float[1, 400, 4] places, float[1, 400, 4] chances",
            "yx = Gather<axis = 2>(corners, turned) places = Div(yx, shares) some = Add(scores, little)"
            " chances = Concat<axis = 2>(nothing, some)",
        ),
    }
    outputs, body = bodies[form]
    model = onnx.parser.parse_model(text.replace("OUTPUTS", outputs).replace("BODY", body))
    used = {name for node in model.graph.node for name in node.input}
    for name, array in constants.items():
        if name in used:
            kept = array if array.dtype.kind == "i" else array.astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(kept, name))
    return model


def detector_bundle(folder: Path, form: str) -> Path:
    folder.mkdir()
    onnx.save(detector(form), folder / f"{form}.onnx")
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))
    (folder / "pictures").mkdir()
    for number, (x, y) in enumerate([(30, 40), (90, 60), (50, 100), (20, 70)]):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        pixels[y - 8 : y + 8, x - 8 : x + 8] = 255
        Image.fromarray(pixels).save(folder / "pictures" / f"{number}.png")
    request = PackageRequest(
        folder / f"{form}.onnx",
        "ios18",
        folder / "bundle",
        precision="float32",
        quantize="none",
        labels=folder / "labels.txt",
        data=folder / "pictures",
        preprocessing=ImagePreprocessing(scale=1 / 255, resize="pad", interpolation="box"),
        target_options={"image": "no"},
    )
    return package(request, Progress()).path


def test_a_picture_shows_boxes(swift: Swift, bundle: Path, tmp_path: Path) -> None:
    """What the original computed of the first sample comes out of the stubs; the boxes are those that Python reads."""
    stub = swift.stubbed(bundle, ["y", "v"])
    expected = {}
    for form in ("columns", "suppressed", "beside"):
        copy = stub.folder / "detectors" / form
        shutil.copytree(detector_bundle(tmp_path / form, form), copy)
        opened = read_bundle(copy)
        golden = {
            feature.name: np.load(copy / "golden" / "0" / "outputs" / f"{place}.npy")
            for place, feature in enumerate(opened.outputs)
        }
        natives = [feature.native_name for feature in opened.outputs]
        values = [array.ravel().astype(float).tolist() for array in golden.values()]
        swift.stub_models(copy, natives[:1], dict(zip(natives, values, strict=True)))
        picture = (ValueSpec("x", "float32", (1, 3, HEIGHT, WIDTH)),)
        reader = recognised([golden], picture, len(LABELS))
        assert reader is not None
        expected[form] = reader.read(golden)
    stub.passes("DetectorTests", DETECTORS=swift.path(stub.folder / "detectors"))
    for form, boxes in expected.items():
        found = json.loads((stub.folder / "detectors" / form / "found.json").read_text())
        assert [(one["label"], one["index"]) for one in found] == [("bird", 0), ("cat", 2)]
        strong = boxes.at(np.flatnonzero(boxes.scores >= 0.5))
        np.testing.assert_allclose([one["confidence"] for one in found], strong.scores, atol=1e-9)
        corners = strong.corners
        if form == "beside":
            corners = corners[:, [1, 0, 3, 2]] * [WIDTH, HEIGHT, WIDTH, HEIGHT]
        in_picture = np.clip((corners - [16, 0, 16, 0]) * 4, 0, SIDE)
        np.testing.assert_allclose([one["box"] for one in found], in_picture, atol=1e-9)
        bird = np.array(found[0]["box"])
        np.testing.assert_allclose((bird[:2] + bird[2:]) / 2, (30, 40), atol=0.4 * 4 + 1e-3)
        np.testing.assert_allclose(bird[2:] - bird[:2], (48, 32), atol=0.1)
