"""Operators of TensorFlow that tf2onnx leaves as they are, against what ``tf.math`` computes."""

from __future__ import annotations

import colorsys
import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from edgekit.errors import InputError
from edgekit.stages.load import Load

X = [-3, -0.5, 0, 1e-4, 0.5, 3]
LEFT = {
    "Erfc": [math.erfc(x) for x in X],
    "Expm1": [math.expm1(x) for x in X],
    "Log1p": [math.nan if x < -1 else math.log1p(x) for x in X],
}
"""With TensorFlow 2.21 the same but for the last digit."""


def left(path: Path, operator: str, dtype: type = np.float32, opset: int = 15, inputs: str = "x") -> Path:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(operator, [*inputs], ["left"], "left"), helper.make_node("Neg", ["left"], ["z"], "after")],
        "graph",
        [helper.make_tensor_value_info(name, kind, [6]) for name in inputs],
        [helper.make_tensor_value_info("z", kind, [6])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def run(path: Path, **feeds: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(Load()(path).model.proto().SerializeToString())
    return -session.run(None, feeds)[0]


@pytest.mark.parametrize("opset", [13, 15, 18])
@pytest.mark.parametrize("operator", LEFT)
def test_one_input(tmp_path: Path, operator: str, opset: int) -> None:
    found = run(left(tmp_path / "m.onnx", operator, opset=opset), x=np.array(X, np.float32))
    np.testing.assert_allclose(found, LEFT[operator], rtol=1e-6, atol=1.2e-7)


def test_the_type_is_that_of_the_input(tmp_path: Path) -> None:
    found = run(left(tmp_path / "m.onnx", "Expm1", np.float64), x=np.array([1e-12, 1.0]).repeat(3))
    np.testing.assert_allclose(found, np.array([1e-12, math.e - 1]).repeat(3), rtol=1e-12)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("Xdivy", [0, 0, 2, -2, math.inf, 0.25]),
        ("Xlogy", [0, 0, 2 * math.log(1), -2 * math.log(1), -math.inf, math.log(4)]),
    ],
)
def test_zero_wins_over_what_is_not_finite(tmp_path: Path, operator: str, expected: list[float]) -> None:
    x, y = np.array([[0, 0, 2, -2, 1, 1], [0, 5, 1, 1, 0, 4]], np.float32)
    found = run(left(tmp_path / "m.onnx", operator, inputs="xy"), x=x, y=y)
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-6)


def run_alone(
    path: Path, operator: str, feeds: dict[str, np.ndarray], result: np.ndarray, opset: int, **attributes: list[float]
) -> np.ndarray:
    """What a node computes as the only one of its model, of open sizes."""

    def told(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        sizes = [f"{name}{axis}" for axis in range(array.ndim)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), sizes)

    node = helper.make_node(operator, [*feeds], ["left"], "left", **attributes)
    inputs = [told(name, array) for name, array in feeds.items()]
    graph = helper.make_graph([node], "graph", inputs, [told("left", result)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    session = onnxruntime.InferenceSession(Load()(path).model.proto().SerializeToString())
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("opset", [13, 15, 18])
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.array([[-5, 10000], [150, 10], [5, 100]], np.int32), [[0, 3], [3, 2], [1, 3]]),
        (np.array([-0.5, 0, 9.5, 10, np.inf, np.nan], np.float32), [0, 1, 1, 2, 3, 3]),
        (np.array(50, np.float32), 2),
    ],
)
def test_buckets(tmp_path: Path, x: np.ndarray, expected: list[int], opset: int) -> None:
    """The first is the example of TensorFlow's documentation of ``tf.raw_ops.Bucketize``."""
    result = np.array(expected, np.int32)
    found = run_alone(tmp_path / "m.onnx", "Bucketize", {"x": x}, result, opset, boundaries=[0.0, 10.0, 100.0])
    np.testing.assert_array_equal(found, result, strict=True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("first", "second"), [([2, 1, 3], [4, 3]), ([], [5]), ([1], [1]), ([0, 1], [1, 7]), ([3], [2, 1]), ([], [])]
)
def test_shapes_that_broadcast(tmp_path: Path, first: list[int], second: list[int], dtype: type) -> None:
    expected = np.array(np.broadcast_shapes(first, second), dtype)
    feeds = {"a": np.array(first, dtype), "b": np.array(second, dtype)}
    found = run_alone(tmp_path / "m.onnx", "BroadcastArgs", feeds, expected, 15)
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("opset", [13, 15, 18])
def test_hue_saturation_and_value(tmp_path: Path, opset: int) -> None:
    """Against Python's ``colorsys``."""
    grid = np.linspace(0, 1, 5)
    x = np.stack(np.meshgrid(grid, grid, grid), -1).reshape(5, 25, 3).astype(np.float32)
    expected = np.array([[colorsys.rgb_to_hsv(*map(float, pixel)) for pixel in row] for row in x], np.float32)
    found = run_alone(tmp_path / "m.onnx", "RGBToHSV", {"x": x}, expected, opset)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_older_operator_sets_than_the_steps_have_stay_unknown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="node 'left' is a Bucketize, which ONNX does not have in operator set 12"):
        Load()(left(tmp_path / "m.onnx", "Bucketize", opset=12))


def test_it_is_told(tmp_path: Path) -> None:
    assert Load()(left(tmp_path / "m.onnx", "Erfc")).warnings == (
        "Erfc is an operator of TensorFlow that ONNX does not have, and the exporter did not convert it: 1 node is "
        "replaced by 1 - Erf(x)",
    )


def test_another_number_of_inputs_stays_unknown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="node 'left' is a Erfc, which ONNX does not have in operator set 15"):
        Load()(left(tmp_path / "m.onnx", "Erfc", inputs="xy"))
