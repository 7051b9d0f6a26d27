from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.execution.executed_constants import execute_constants

MODELS = {
    "window": "(float[16] x) => (float[16] y) <int64 size = {16}> { w = HannWindow(size) y = Mul(x, w) }",
    "mel": (
        "(float[1, 33] x) => (float[1, 8] y) "
        "<int64 bands = {8}, int64 size = {64}, int64 rate = {8000}, float low = {0.0}, float high = {4000.0}> "
        "{ m = MelWeightMatrix(bands, size, rate, low, high) y = MatMul(x, m) }"
    ),
}
GIVEN = "(int64 size, float[16] x) => (float[N] y) { w = HammingWindow(size) y = Mul(x, w) }"


def parsed(body: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {body}'))


def run(model: ir.Model, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_table_has_onnx_runtimes_numbers(name: str) -> None:
    model = parsed(MODELS[name])
    shape = [int(size) for size in model.graph.inputs[0].shape or ()]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = run(model, x)

    assert execute_constants(model)

    assert len(model.graph) == 1
    np.testing.assert_array_equal(run(model, x), expected)


def test_a_size_that_is_given_stays() -> None:
    assert not execute_constants(parsed(GIVEN))


def test_an_old_softmax_is_over_all_axes_from_one_on() -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { s = Softmax(w) y = Mul(x, s) }"
    proto = onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["": 11]> {text}')
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8
    proto.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "w"))
    model = ir.from_proto(proto)

    assert execute_constants(model)

    shares = np.exp(numbers) / np.exp(numbers).sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(run(model, np.ones((2, 3, 4), np.float32)), shares, rtol=1e-6)


def test_an_operator_of_several_outputs_stays() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, 2] x) => (float[1, 1, 2] y) '
        "{ m, i = MaxPool <kernel_shape = [2], strides = [2]> (w) y = Mul(x, m) }"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1, 4), np.float32), "w"))
    assert not execute_constants(ir.from_proto(proto))
