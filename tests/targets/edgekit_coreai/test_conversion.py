"""Whole ONNX models, executed by Apple's runtime and compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit_coreai
from edgekit.errors import InputError, UnsupportedOpsError

RANDOM = np.random.default_rng(5)


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    """A model whose last node's first output is ``y``."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def network() -> onnx.ModelProto:
    """Convolution with padding, activation, pooling, a residual, a mean and a matrix product."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("HardSwish", ["c1"], ["a1"]),
        helper.make_node("Conv", ["a1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=8),
        helper.make_node("Add", ["c2", "a1"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    weights = {
        "w1": weight(8, 3, 3, 3),
        "b1": weight(8),
        "w2": weight(8, 1, 3, 3),
        "w3": weight(10, 8),
        "b3": weight(10),
    }
    return model_of(nodes, {"x": [1, 3, 32, 32]}, weights)


def expected(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("float16", 2e-3)])
def test_a_convolutional_network_computes_what_onnx_runtime_does(
    tmp_path: Path, precision: str, tolerance: float
) -> None:
    model = network()
    path = edgekit_coreai.convert(model, tmp_path / "network", precision=precision)
    assert path == tmp_path / "network.aimodel"
    runner = edgekit_coreai.load(path)
    assert runner.executed_by.startswith("Apple's Core AI runtime 1.")
    feeds = {"x": RANDOM.standard_normal((1, 3, 32, 32)).astype(np.float32)}
    result = runner.run(feeds)["y"]
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected(model, feeds), atol=tolerance)


def test_all_gaps_of_a_model_are_told_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["n"]),
        helper.make_node("Bernoulli", ["x"], ["m"]),
        helper.make_node("Add", ["n", "m"], ["y"]),
    ]
    with pytest.raises(UnsupportedOpsError) as caught:
        edgekit_coreai.convert(model_of(nodes, {"x": [2]}, {}), tmp_path / "random")
    assert sorted(caught.value.ops) == ["Bernoulli", "RandomNormalLike"]
    assert not (tmp_path / "random.aimodel").exists()


def test_a_wrong_input_is_named(tmp_path: Path) -> None:
    runner = edgekit_coreai.load(edgekit_coreai.convert(network(), tmp_path / "network"))
    with pytest.raises(InputError, match="wrong shape"):
        runner.run({"x": np.zeros((1, 3, 8, 8), np.float32)})


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a Core AI model[\s\S]*metadata\.json"):
        edgekit_coreai.load(tmp_path)


SIDES = {
    "cut alike": [1, 1, 1, 1],
    "cut more before": [1, 2, 0, 1],
    "cut more after": [0, 1, 2, 2],
    "nothing cut": [0, 0, 0, 0],
}


@pytest.mark.parametrize("pads", SIDES.values(), ids=SIDES)
def test_a_transposed_convolution_is_cut_on_each_side_by_itself(pads: list[int], tmp_path: Path) -> None:
    """The result is higher than wide, and no two of its sides lose the same."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=pads)
    agree(model_of([node], {"x": [1, 2, 5, 4]}, {"w": weight(2, 3, 3, 4)}), tmp_path)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_grid_is_higher_than_wide(mode: str, padding: str, tmp_path: Path) -> None:
    """The grid's size is not that of the picture, nor is it square; some of its positions lie outside."""
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding)
    model = model_of([node], {"x": [2, 3, 5, 4], "grid": [2, 6, 3, 2]}, {})
    model.opset_import[0].version = 20
    grid = RANDOM.uniform(-1.3, 1.3, (2, 6, 3, 2)).astype(np.float32)
    agree(model, tmp_path, grid=grid)


def agree(model: onnx.ModelProto, folder: Path, **given: np.ndarray) -> None:
    """Asserts that Apple's runtime computes what ONNX Runtime does, on random numbers where none are given."""
    inputs = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in model.graph.input}
    feeds = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()} | given
    package = edgekit_coreai.convert(model, folder / "model.aimodel", precision="float32")
    (found,) = edgekit_coreai.load(package).run(feeds).values()
    np.testing.assert_allclose(found, expected(model, feeds), rtol=1e-4, atol=1e-5)
