"""A model's own label is its decision; scores that put another class first are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit as api

CENTRES = np.array([[0, 0], [4, 0], [0, 9]], np.float32)


def written(graph: onnx.GraphProto, path: Path) -> Path:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), path)
    return path


def value(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    """What skl2onnx makes of KMeans, in short: the nearest cluster, and the distances from all of them."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["row"]),
        helper.make_node("Sub", ["row", "centres"], ["far"]),
        helper.make_node("ReduceL2", ["far", "two"], ["scores"], keepdims=0),
        helper.make_node("ArgMin", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    constants = {"centres": CENTRES, "one": np.array([1]), "two": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "clusters",
        [value("x", TensorProto.FLOAT, 1, 2)],
        [value("label", TensorProto.INT64, 1), value("scores", TensorProto.FLOAT, 1, 3)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return written(graph, tmp_path / "clusters.onnx")


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """A linear classifier whose classes are called 3, 5 and 9."""
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        coefficients=[1.0, 0, 0, 1, -1, -1],
        intercepts=[0.0, 0, 0],
        classlabels_ints=[3, 5, 9],
        post_transform="SOFTMAX",
    )
    outputs = [value("label", TensorProto.INT64, 1), value("probabilities", TensorProto.FLOAT, 1, 3)]
    return written(
        helper.make_graph([node], "numbered", [value("x", TensorProto.FLOAT, 1, 2)], outputs),
        tmp_path / "numbered.onnx",
    )


def labelled(model: Path, folder: Path, classes: list[int]) -> list[tuple[Path, int]]:
    """Samples with the index of the class that ONNX Runtime's ``label`` tells."""
    session = onnxruntime.InferenceSession(model)
    rng = np.random.default_rng(3)
    folder.mkdir()
    samples = []
    for place in range(30):
        x = (CENTRES[place % 3] - [1, 2] + rng.normal(size=(1, 2))).astype(np.float32)
        (number,) = session.run(["label"], {"x": x})[0].tolist()
        file = folder / f"{place:02}.npz"
        np.savez(file, x=x, label=classes.index(number))
        samples.append((file, classes.index(number)))
    assert len({label for _, label in samples}) > 1
    return samples


@pytest.mark.parametrize(("name", "classes"), [("clusters", [0, 1, 2]), ("numbered", [3, 5, 9])])
def test_the_label_of_the_model_decides(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, classes: list[int]
) -> None:
    model: Path = request.getfixturevalue(name)
    samples = labelled(model, tmp_path / "data", classes)
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\n")
    bundle = api.package(model, "ort", tmp_path / "out", data=tmp_path / "data", labels=names, quantize="none")
    assert bundle.manifest["accuracy"]["task"]["reference"] == bundle.manifest["accuracy"]["task"]["built"] == 1
    loaded = api.load(bundle)
    for file, label in samples:
        first = loaded.classify(file)[0]
        assert (first.index, first.label) == (label, "abc"[label])
    assert len(loaded.classify(samples[0][0])) == (1 if name == "clusters" else 3)
    assert (loaded.classify(samples[0][0])[0].score is None) == (name == "clusters")
    verified = api.verify(bundle, data=tmp_path / "data")
    assert verified.labels is not None
    assert verified.labels.built == 1


def test_quantization_counts_the_labels_that_the_model_decides(clusters: Path, tmp_path: Path) -> None:
    labelled(clusters, tmp_path / "data", [0, 1, 2])
    found = api.quantize(clusters, tmp_path / "q.onnx", data=tmp_path / "data", scheme="int8")
    assert not [warning for warning in found.warnings if "labels" in warning]
