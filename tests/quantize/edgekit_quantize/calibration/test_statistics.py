from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.statistics import ChannelStatistics, calibrate


def test_mean_and_mean_square_by_channel(rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=(2, 3, 5)).astype(np.float32) for _ in range(4)]
    found = ChannelStatistics()
    for array in arrays:
        found.update(array, 1)

    together = np.concatenate(arrays)
    np.testing.assert_allclose(found.mean, together.mean((0, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.mean_square, (together**2).mean((0, 2)), rtol=1e-5)


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_counts_as_zero(other: float) -> None:
    found = ChannelStatistics()
    found.update(np.array([[other, 2], [4, other]], np.float32), 0)
    assert (found.mean.tolist(), found.mean_square.tolist(), found.high.tolist()) == ([1, 2], [2, 8], [2, 4])


def test_they_may_be_divided_afterwards(rng: np.random.Generator) -> None:
    array, factors = rng.normal(1, 1, (7, 3)).astype(np.float32), np.array([0.5, 1.0, 8.0], np.float32)
    divided, first = ChannelStatistics(), ChannelStatistics()
    divided.update(array, -1)
    first.update(array / factors, -1)

    divided.divide(factors)

    assert divided.mean == pytest.approx(first.mean, rel=1e-5)
    assert divided.mean_square == pytest.approx(first.mean_square, rel=1e-5)


def test_the_largest_number_of_each_channel(rng: np.random.Generator) -> None:
    found = ChannelStatistics()
    arrays = [rng.normal(size=(2, 3, 5)).astype(np.float32) - np.array([[[0], [0], [99]]], np.float32) for _ in "ab"]
    for array in arrays:
        found.update(array, 1)

    expected = np.maximum(np.concatenate(arrays).max((0, 2)), 0)
    np.testing.assert_array_equal(found.high, expected)
    assert found.high[2] == 0
    found.divide(np.array([2.0, 1.0, 1.0]))
    assert found.high[0] == pytest.approx(expected[0] / 2)


def test_answers_are_in_the_order_of_the_model_s_outputs() -> None:
    """Which of several outputs is the first decides which one tells the class; nodes may compute another one first."""
    text = (
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3] x, float[1, 3] h) => (float[1, 3] y, float[1, 3] hn)'
        " { hn = Neg(h) y = Add(x, hn) }"
    )
    feeds = {"x": np.ones((1, 3), np.float32), "h": np.full((1, 3), 3, np.float32)}
    calibration = calibrate(ir.from_proto(onnx.parser.parse_model(text)), {"hn": []}, [(feeds, 0)], 1)
    (answer,) = calibration.references.answers()
    assert {name: array.tolist() for name, array in answer.outputs.items()} == {"y": [[-2] * 3], "hn": [[-3] * 3]}
    assert list(answer.outputs) == ["y", "hn"]


def test_an_output_that_is_a_constant_is_an_answer_of_every_sample() -> None:
    """Detectors give their anchors in addition to what they find; no node computes the anchors."""
    text = (
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3] x) => (float[1, 3] y, float[2] anchors)'
        " <float[2] anchors = {5, 7}> { y = Neg(x) }"
    )
    feeds = [({"x": np.full((1, 3), number, np.float32)}, None) for number in (1, 2)]
    calibration = calibrate(ir.from_proto(onnx.parser.parse_model(text)), {"x": []}, feeds, 2)
    assert [each.outputs["y"][0, 0] for each in calibration.references] == [-1, -2]
    assert [each.outputs["anchors"].tolist() for each in calibration.references] == [[5, 7], [5, 7]]


PADDED = """<ir_version: 9, opset_import: ["": 17]> g (float[1, 1, 4] x) => (float[1, 1, 4] y)
<int64[6] around = {0, 0, 1, 0, 0, 1}, float[1] one = {1}> {
    below = Constant <value = float {-inf}> ()  p = Pad(x, around, below)
    m = MaxPool <kernel_shape = [3], strides = [1]> (p)  n = Log(x)  y = Add(m, n) }"""
MASKED = """<ir_version: 9, opset_import: ["": 17]> g (float[1, 2, 2] x) => (float[1, 2, 2] y)
<int64[2] square = {2, 2}, int64 above = {1}> {
    all = ConstantOfShape <value = float[1] {-inf}> (square)  mask = Trilu <upper = 1> (all, above)
    p = Add(x, mask)  n = Log(x)  s = Softmax(p)  y = Add(s, n) }"""


@pytest.mark.parametrize("text", [PADDED, MASKED], ids=["around a MaxPool", "before a Softmax"])
def test_infinity_that_the_graph_itself_writes_is_no_surprise(text: str) -> None:
    """The infinity of a logarithm of 0 is a surprise, and so is NaN."""
    model = ir.from_proto(onnx.parser.parse_model(text))
    shape = model.graph.inputs[0].shape
    assert shape is not None

    def warnings(x: float) -> list[str]:
        feeds = {"x": np.full(shape.numpy(), x, np.float32)}
        return calibrate(model, {"p": [], "n": []}, [(feeds, None)], 1).warnings

    assert warnings(1.0) == []
    assert [warning.split(" took ")[0] for warning in warnings(0.0)] == ["the tensor 'n'"]
    assert [warning.split(" took ")[0] for warning in warnings(np.nan)] == ["the tensor 'p'", "the tensor 'n'"]
