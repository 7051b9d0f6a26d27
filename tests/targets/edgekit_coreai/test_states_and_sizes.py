"""States go on from one run to the next, and open sizes are taken as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit_coreai
from edgekit.errors import InputError, UnsupportedOpsError


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, list[int | str]], outputs: list[str]) -> onnx.ModelProto:
    shapes = {name: next(iter(inputs.values())) for name in outputs}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def test_a_sum_goes_on_over_twenty_steps(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Add", ["x", "h"], ["h_next"]), helper.make_node("Neg", ["h_next"], ["y"])],
        {"x": [1, 4], "h": [1, 4]},
        ["y", "h_next"],
    )
    runner = edgekit_coreai.load(edgekit_coreai.convert(model, tmp_path / "sum", states={"h": "h_next"}))
    state, total = runner.make_state(), np.zeros((1, 4), np.float32)
    for step in range(20):
        x = np.full((1, 4), step, np.float32)  # float16, which states are in, holds all these sums
        total += x
        np.testing.assert_array_equal(runner.run({"x": x}, state=state)["y"], -total)
    with pytest.raises(InputError, match=r"the model has states[\s\S]*make_state"):
        runner.run({"x": x})


def test_an_open_size_is_taken_as_it_comes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["s"], axis=-1), helper.make_node("Add", ["s", "x"], ["y"])]
    model = model_of(nodes, {"x": ["N", 3]}, ["y"])
    path = edgekit_coreai.convert(model, tmp_path / "open", precision="float32", dimensions={"N": range(1, 6)})
    runner = edgekit_coreai.load(path)
    for count in (1, 2, 5):
        x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
        exponentials = np.exp(x)
        expected = exponentials / exponentials.sum(axis=1, keepdims=True) + x
        np.testing.assert_allclose(runner.run({"x": x})["y"], expected, atol=1e-6)
    with pytest.raises(InputError, match="out of the range"):
        runner.run({"x": np.zeros((6, 3), np.float32)})


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_UPPER"}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ],
)
def test_pooling_pads_an_open_size_as_it_comes(tmp_path: Path, operator: str, attributes: dict[str, Any]) -> None:
    model = model_of([helper.make_node(operator, ["x"], ["y"], **attributes)], {"x": [1, 2, "H", "W"]}, ["y"])
    sizes = {"H": range(4, 10), "W": range(4, 10)}
    runner = edgekit_coreai.load(edgekit_coreai.convert(model, tmp_path / "m", precision="float32", dimensions=sizes))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for height, width in ((4, 4), (5, 8), (8, 5), (9, 9)):
        x = np.random.default_rng(height).standard_normal((1, 2, height, width)).astype(np.float32)
        (expected,) = session.run(["y"], {"x": x})
        np.testing.assert_allclose(runner.run({"x": x})["y"], expected, atol=1e-6)


def test_padding_before_an_open_size_that_depends_on_it_is_a_gap(tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER", name="pool")
    model = model_of([node], {"x": [1, 2, "L"]}, ["y"])
    with pytest.raises(UnsupportedOpsError, match="pad_type 'same' with strides over a size that is open"):
        edgekit_coreai.convert(model, tmp_path / "m", dimensions={"L": range(4, 10)})
