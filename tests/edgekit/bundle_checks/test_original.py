from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.bundle import read_bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.bundle_checks.original import open_original, original_of
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

OnnxModel = Callable[..., onnx.ModelProto]


@pytest.fixture
def many_inputs(tmp_path: Path, onnx_model: OnnxModel) -> Path:
    """A step of a model that keeps 30 states outside."""
    names = range(30)
    inputs, outputs = (", ".join(f"float[1, 4] {kind}{number}" for number in names) for kind in ("h", "n"))
    nodes = " ".join(f"n{number} = Add(h{number}, h{number})" for number in names)
    onnx.save(onnx_model(f"f ({inputs}) => ({outputs}) {{ {nodes} }}"), tmp_path / "model.onnx")
    package(PackageRequest(tmp_path / "model.onnx", "onnxruntime", tmp_path / "bundle"), Progress())
    return tmp_path


def test_the_original_and_a_bundle_of_the_same_runtime_take_alike(many_inputs: Path) -> None:
    built, original = bench_bundle(read_bundle(many_inputs / "bundle"), model=many_inputs / "model.onnx")
    assert built.peak_memory is not None
    assert original.peak_memory is not None
    assert original.peak_memory < 1.2 * built.peak_memory
    assert original.executed_by == f"ONNX Runtime {onnxruntime.__version__}, CPU, optimized, 1 thread"


def test_states_are_fed_back_from_zero(tmp_path: Path, onnx_model: OnnxModel) -> None:
    text = "f (float[1, 2] x, float[1, 2] h) => (float[1, 2] y, float[1, 2] n) { n = Add(x, h) y = Neg(n) }"
    onnx.save(onnx_model(text), tmp_path / "model.onnx")
    order = PackageRequest(tmp_path / "model.onnx", "ios18", tmp_path / "bundle", states={"h": "n"})
    package(order, Progress())
    with open_original(read_bundle(tmp_path / "bundle"), tmp_path / "model.onnx") as session:
        for step in range(1, 4):
            (y,) = session.run({"x": np.array([[1, 10]], np.float32)}).values()
            np.testing.assert_array_equal(y, [[-step, -10 * step]])


def test_tensors_in_files_are_found_where_they_lie(tmp_path: Path, onnx_model: OnnxModel) -> None:
    model = onnx_model("f (float[1, 4] x) => (float[1, 4] y) { y = Add(x, w) }")
    weights = np.arange(4, dtype=np.float32).reshape(1, 4)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    package(PackageRequest(tmp_path / "model.onnx", "onnxruntime", tmp_path / "bundle"), Progress())
    with open_original(read_bundle(tmp_path / "bundle"), tmp_path / "model.onnx") as session:
        (y,) = session.run({"x": np.ones((1, 4), np.float32)}).values()
    np.testing.assert_array_equal(y, weights + 1)


def test_it_is_tried_at_the_sizes_of_a_golden_sample(tmp_path: Path, onnx_model: OnnxModel) -> None:
    """It runs with three times as many edges as nodes alone."""
    text = """f (float[nodes, 4] x, float[edges, 4] e, float[3, 4] w) => (float[nodes, 3, 4] y) {
        shape = Shape(w) sizes = Concat<axis = 0>(all, shape) per_node = Reshape(e, sizes)
        row = Unsqueeze(x, ones) weighted = Mul(row, w) y = Add(per_node, weighted)
    }"""
    model = onnx_model(text)
    for name, value in {"all": [-1], "ones": [1]}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value, np.int64), name))
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    for number, nodes in enumerate((5, 7)):
        shapes = {"x": (nodes, 4), "e": (3 * nodes, 4), "w": (3, 4)}
        arrays = {name: np.full(shape, number + 1, np.float32) for name, shape in shapes.items()}
        np.savez(tmp_path / "data" / f"{number}.npz", **arrays)
    order = PackageRequest(
        tmp_path / "model.onnx", "onnxruntime", tmp_path / "bundle", data=tmp_path / "data", quantize="none"
    )
    package(order, Progress())
    original = original_of(read_bundle(tmp_path / "bundle"), tmp_path / "model.onnx")
    assert [node.op_type for node in original.graph] == ["Reshape", "Unsqueeze", "Mul", "Add"]  # no sizes
