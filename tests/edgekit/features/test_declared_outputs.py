"""``[outputs]`` of the project file, from the command to the bundle and its verification."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit
from edgekit.bundle import Bundle
from edgekit.errors import InputError

ROWS = 400
STRONG = 8


def detector(file: Path, rows: int) -> Path:
    """Centre, size and two scores of boxes in a row, a few of them strong; the picture moves them a little."""
    rng = np.random.default_rng(0)
    centres, sizes = rng.uniform(10, 50, (rows, 2)), rng.uniform(2, 9, (rows, 2))
    scores = rng.uniform(0, 0.05, (rows, 2))
    scores[:STRONG, 0] = rng.uniform(0.6, 0.9, STRONG)
    table = np.hstack([centres, sizes, scores])[np.newaxis].astype(np.float32)
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 64, 64] x) => (float[1, rows, 6] y, float[1, 3] z)'
        " { z = ReduceMean<axes = [2, 3], keepdims = 0>(x) m = ReduceMean<axes = [1], keepdims = 1>(z)"
        " y = Add(table, m) }".replace("rows", str(rows))
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    onnx.save(model, file)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(1)
    for number in range(4):
        np.savez(tmp_path / "data" / f"{number}.npz", x=rng.uniform(0, 0.02, (1, 3, 64, 64)).astype(np.float32))
    return tmp_path


def packaged(folder: Path, rows: int, declared: str, quantize: str | None = "none") -> Bundle:
    (folder / "edgekit.toml").write_text(f"[outputs]\n{declared}\n")
    model = detector(folder / "model.onnx", rows)
    return edgekit.package(model, "onnxruntime", output=folder / "bundle", data=folder / "data", quantize=quantize)


def test_a_detector_of_few_rows_is_judged_by_its_boxes_where_the_user_says_so(folder: Path) -> None:
    assert packaged(folder, 20, "").manifest["accuracy"]["meaning"] is None
    bundle = packaged(folder, 20, 'boxes = "y"')
    assert bundle.manifest["options"]["outputs"] == {"boxes": ["y"]}
    meaning = bundle.manifest["accuracy"]["meaning"]
    assert (meaning["kind"], meaning["outputs"], meaning["wrong"]) == ("boxes", ["y"], 0)
    assert meaning["boxes"]["coordinates_are"] == "centre_and_size"
    (folder / "edgekit.toml").unlink()  # the bundle remembers
    verified = edgekit.verify(bundle, data=folder / "data", model=folder / "model.onnx").accuracy
    assert verified is not None
    assert verified.meaning is not None
    assert verified.meaning.outputs == ("y",)


def test_boxes_that_are_none_are_not_judged_as_such(folder: Path) -> None:
    assert packaged(folder, ROWS, "").manifest["accuracy"]["meaning"]["kind"] == "boxes"
    bundle = packaged(folder, ROWS, "boxes = false")
    assert bundle.manifest["accuracy"]["meaning"] is None
    assert bundle.manifest["options"]["outputs"] == {"boxes": False}
    verified = edgekit.verify(bundle, data=folder / "data", model=folder / "model.onnx").accuracy
    assert verified is not None
    assert verified.meaning is None


NOT_READ = r"\[outputs\] boxes: boxes are not read from these outputs\n.*\nfound: z: 1×3\n"


@pytest.mark.parametrize("quantize", ["none", None])
def test_outputs_that_hold_no_boxes_are_an_error(folder: Path, quantize: str | None) -> None:
    with pytest.raises(InputError, match=NOT_READ):
        packaged(folder, ROWS, 'boxes = "z"', quantize)
    with pytest.raises(InputError, match=NOT_READ):
        edgekit.quantize(folder / "model.onnx", folder / "out.onnx", data=folder / "data", scheme="int8")


def test_an_output_that_the_model_lacks_is_named(folder: Path) -> None:
    with pytest.raises(InputError) as failure:
        packaged(folder, 20, 'boxes = ["y", "boxes"]')
    assert str(failure.value) == (
        "[outputs] boxes: the model has no such output\n"
        "expected: one of y, z\n"
        "found: boxes\n"
        "hint: `edgekit inspect MODEL` lists the outputs"
    )


def encoder(file: Path) -> Path:
    """An embedding that nothing tells but its user: a matrix product of the picture's means, called z."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 64, 64] x) => (float[1, 24] z)'
        " { m = ReduceMean<axes = [2, 3], keepdims = 0>(x) z = MatMul(m, weight) }"
    )
    weight = np.random.default_rng(0).standard_normal((3, 24)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))
    onnx.save(model, file)
    return file


@pytest.mark.parametrize(("declared", "kind"), [("", None), ('embeddings = "z"', "embeddings")])
def test_an_embedding_is_one_where_the_user_says_so(folder: Path, declared: str, kind: str | None) -> None:
    (folder / "edgekit.toml").write_text(f"[outputs]\n{declared}\n")
    model = encoder(folder / "model.onnx")
    bundle = edgekit.package(
        model, "onnxruntime", output=folder / "bundle", data=folder / "data", quantize="int8-weights", accept=True
    )
    (folder / "edgekit.toml").unlink()  # the bundle remembers
    verified = edgekit.verify(bundle, data=folder / "data", model=model).accuracy
    assert verified is not None
    for meaning in (bundle.manifest["accuracy"]["meaning"], verified.as_record()["meaning"]):
        assert (None if meaning is None else meaning["kind"]) == kind
    if kind is not None:
        assert bundle.manifest["options"]["outputs"] == {"embeddings": ["z"]}


@pytest.mark.parametrize(
    ("declared", "read", "scores", "label", "probability"),
    [(None, "aux", "logits", "cat", 0.993307), ("scores", "scores", "independent", "dog", 0.880797)],
)
def test_the_output_that_tells_the_class_is_the_one_that_the_user_names(
    tmp_path: Path, declared: str | None, read: str, scores: str, label: str, probability: float
) -> None:
    """Both fit: the first gives (2, -3), of which softmax makes 1 / (1 + exp(-5)), the second the sigmoid of (1, 2)."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 2] x) => (float[1, 2] aux, float[1, 2] scores)'
        " <float[1] none = {0}, float[2] first = {2, -3}, float[2] second = {1, 2}>"
        " { zeros = Mul(x, none) aux = Add(zeros, first) s = Add(zeros, second) scores = Sigmoid(s) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "data").mkdir()
    for number in range(2):
        np.savez(tmp_path / "data" / f"{number}.npz", x=np.full((1, 2), number, np.float32))
    if declared is not None:
        (tmp_path / "edgekit.toml").write_text(f'[outputs]\nclasses = "{declared}"\n')
    bundle = edgekit.package(
        tmp_path / "model.onnx",
        "onnxruntime",
        tmp_path / "bundle",
        data=tmp_path / "data",
        labels=tmp_path / "labels.txt",
        quantize="none",
        **({} if declared is None else {"config": tmp_path / "edgekit.toml"}),
    )
    assert bundle.manifest["classes"] == {"output": read, "scores": scores}
    best = edgekit.load(bundle.path).classify(np.ones((1, 2), np.float32))[0]
    assert best.probability == pytest.approx(probability, abs=1e-5)
    assert best.label == label
