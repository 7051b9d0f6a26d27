"""What OpenVINO's own tools make of an IR without being told anything: its Model API, and benchmark_app."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from PIL import Image

import edgekit

MODEL_API = ("openvino-model-api==0.4.7", "opencv-python-headless>=4.9,<5")
PROGRAM = """
import json, sys
import numpy as np
from model_api.models import Model
file, picture = sys.argv[1:]
found = Model.create_model(file, device="CPU")(np.load(picture))
if hasattr(found, "top_labels"):
    answer = [[label.name, float(label.confidence)] for label in found.top_labels]
else:
    answer = [
        [name, [int(corner) for corner in box], float(score)]
        for name, box, score in zip(found.label_names, found.bboxes, found.scores)
    ]
print(json.dumps(answer))
"""
RNG = np.random.default_rng(0)


def save(path: Path, graph: str, metadata: dict[str, str] | None = None, **constants: np.ndarray) -> Path:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    onnx.helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a classifier of colours: 32×48 pixels, three classes."""
    folder = tmp_path_factory.mktemp("classifier")
    model = save(
        folder / "colours.onnx",
        """g (float[1, 3, 32, 48] image) => (float[1, 3] scores) {
            c = Conv <pads = [1, 1, 1, 1]> (image, w) r = Relu (c) m = GlobalAveragePool (r) f = Flatten (m)
            scores = Gemm (f, v) }""",
        w=RNG.standard_normal((8, 3, 3, 3)).astype(np.float32),
        v=RNG.standard_normal((8, 3)).astype(np.float32),
    )
    (folder / "labels.txt").write_text("sky blue\ngrass\nfire\n", encoding="utf-8")
    (folder / "edgekit.toml").write_text(
        '[preprocessing]\nkind = "image"\nscale = "1/255"\nmean = [0.5, 0.4, 0.3]\nstd = [0.2, 0.25, 0.3]\n'
        'resize = "stretch"\n',
        encoding="utf-8",
    )
    edgekit.package(model, "intel-cpu", folder / "bundle", labels=folder / "labels.txt", config=folder / "edgekit.toml")
    return folder


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a detector in YOLO's form that finds a box where the picture is red, and another where it is blue."""
    folder = tmp_path_factory.mktemp("detector")
    boxes = RNG.uniform(8, 40, (1, 4, 126)).astype(np.float32)
    boxes[0, :, 5], boxes[0, :, 100] = (48, 32, 20, 10), (30, 20, 16, 24)
    places = np.zeros((1, 2, 126), np.float32)
    places[0, 0, 5], places[0, 1, 100] = 1, 1
    model = save(
        folder / "lights.onnx",
        """g (float[1, 3, 64, 96] images) => (float[1, 6, 126] output0) {
            m = GlobalAveragePool (images) f = Reshape (m, column) rb = Gather <axis = 1> (f, channels)
            s = Mul (rb, places) output0 = Concat <axis = 1> (boxes, s) }""",
        {"names": "{0: 'red light', 1: 'blue'}", "stride": "32", "task": "detect", "author": "A. Uthor"},
        column=np.array([1, 3, 1]),
        channels=np.array([0, 2]),
        places=places,
        boxes=boxes,
    )
    edgekit.package(model, "intel-cpu", folder / "bundle")
    return folder


@pytest.fixture(scope="session")
def model_api(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import Model API from: 150 MB with OpenCV, which is why the environment does without."""
    folder = tmp_path_factory.mktemp("model-api")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *MODEL_API]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def answer(model_api: Path, file: Path, picture: np.ndarray, scratch: Path) -> Any:
    """What Model API finds in a picture, whose channels are blue, green, red as OpenCV reads them."""
    np.save(scratch / "picture.npy", picture)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(scratch / "picture.npy")],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(model_api)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_model_api_runs_a_classifier_without_arguments(classifier: Path, model_api: Path, tmp_path: Path) -> None:
    rgb = RNG.integers(0, 256, (32, 48, 3), np.uint8)
    image = ((rgb / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.25, 0.3]).transpose(2, 0, 1)[None].astype(np.float32)
    session = onnxruntime.InferenceSession(classifier / "colours.onnx", providers=["CPUExecutionProvider"])
    scores = session.run(None, {"image": image})[0][0]
    shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    ((name, share),) = answer(model_api, classifier / "bundle" / "model.xml", rgb[..., ::-1].copy(), tmp_path)
    assert name == ["sky_blue", "grass", "fire"][int(shares.argmax())]
    assert share == pytest.approx(shares.max(), abs=0.01)


@pytest.mark.slow
def test_model_api_runs_a_detector_without_arguments(detector: Path, model_api: Path, tmp_path: Path) -> None:
    red = np.zeros((128, 192, 3), np.uint8)
    red[..., 2] = 204
    assert answer(model_api, detector / "bundle" / "model.xml", red, tmp_path) == [
        ["red_light", [76, 54, 116, 74], pytest.approx(0.8, abs=0.01)]
    ]


def test_the_ir_says_what_goes_in_and_where_it_comes_from(detector: Path, classifier: Path) -> None:
    read = openvino.Core().read_model(detector / "bundle" / "model.xml")
    assert read.get_rt_info(["model_info", "model_type"]).astype(str) == "YOLOv8"
    assert read.get_rt_info(["metadata", "author"]).astype(str) == "A. Uthor"
    assert read.get_rt_info(["model_info", "resize_type"]).astype(str) == "fit_to_window_letterbox"
    assert str(openvino.layout_helpers.get_layout(read.inputs[0])) == "[N,C,H,W]"
    read = openvino.Core().read_model(classifier / "bundle" / "model.xml")
    means = [float(number) for number in read.get_rt_info(["model_info", "mean_values"]).astype(str).split()]
    assert means == pytest.approx([127.5, 102, 76.5])
    assert read.get_rt_info(["model_info", "labels"]).astype(str) == "sky_blue grass fire"


def test_benchmark_app_runs_the_ir(detector: Path) -> None:
    program = "import openvino.tools.benchmark.main as app; app.main()"  # what the command benchmark_app runs
    command = [sys.executable, "-c", program, "-m", str(detector / "bundle" / "model.xml"), "-d", "CPU", "-t", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Throughput" in done.stdout
    assert "[N,C,H,W]" in done.stdout


def test_a_bundle_that_says_so_much_verifies_on_pictures(classifier: Path, tmp_path: Path) -> None:
    Image.fromarray(RNG.integers(0, 256, (32, 48, 3), np.uint8)).save(tmp_path / "0.png")
    found = edgekit.verify(classifier / "bundle", data=tmp_path, model=classifier / "colours.onnx")
    assert found.accuracy is not None
    assert found.accuracy.shortfalls() == []
