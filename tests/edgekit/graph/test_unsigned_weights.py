"""Integer products with unsigned weights: the numbers of the signed ones, and no saturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.unsigned_weights import OPERATORS, with_unsigned_weights
from edgekit.model import Model

FITS = 64
"""Two products of such weights with 255 fit into 16 bits: no processor saturates."""
MICROSOFT = "com.microsoft"
F32, I32, U8, I8 = np.float32, np.int32, np.uint8, np.int8


def _levels(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-FITS, FITS, shape, I8, endpoint=True)


def _node(
    op_type: str, inputs: list[np.ndarray | None], outputs: list[str], *, domain: str = "", fed: tuple[int, ...] = (0,)
) -> tuple[Model, dict[str, np.ndarray]]:
    names = ["" if array is None else f"in_{index}" for index, array in enumerate(inputs)]
    attributes = {"hidden_size": 8} if op_type == "DynamicQuantizeLSTM" else {}
    attributes |= {"num_heads": 2} if op_type == "QAttention" else {}
    made = onnx.helper.make_node(op_type, names, [f"out_{i}" for i in range(len(outputs))], domain=domain, **attributes)
    given = {name: np.asarray(array) for name, array in zip(names, inputs, strict=True) if array is not None}
    feeds = {f"in_{index}": given[f"in_{index}"] for index in fed}

    def value(name: str, dtype: Any, shape: Any) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = onnx.helper.make_graph(
        [made],
        "g",
        [value(name, array.dtype, array.shape) for name, array in feeds.items()],
        [value(f"out_{index}", dtype, None) for index, dtype in enumerate(outputs)],
        [onnx.numpy_helper.from_array(array, name) for name, array in given.items() if name not in feeds],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid(MICROSOFT, 1)]
    return Model(ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10))), feeds


def _run(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _cases() -> dict[str, tuple[str, str, list[np.ndarray | None], list[str], tuple[int, ...]]]:
    rng = np.random.default_rng(3)
    w, cube = _weights(rng, 9, 5), _weights(rng, 4, 3, 3, 3)
    scales = rng.uniform(0.01, 0.02, 5).astype(F32)
    x = {dtype: _levels(rng, dtype, 3, 9) for dtype in (U8, I8)}
    image = {dtype: _levels(rng, dtype, 1, 3, 6, 6) for dtype in (U8, I8)}
    floats = rng.normal(size=(3, 9)).astype(F32)
    cases: dict[str, Any] = {}
    for name, dtype, zero in (("unsigned", U8, 100), ("signed", I8, -7)):
        at = np.array(zero, dtype)
        cases[f"MatMulInteger, {name}"] = ("", "MatMulInteger", [x[dtype], w, at], ["int32"])
        both = [x[dtype], F32(0.02), at, w, scales, np.zeros(5, I8), F32(0.5), at]
        cases[f"QLinearMatMul, {name}"] = ("", "QLinearMatMul", both, [np.dtype(dtype).name])
        bias = rng.integers(-999, 999, 4, I32)
        both = [image[dtype], F32(0.02), at, cube, scales[:4], np.zeros(4, I8), F32(0.5), at, bias]
        cases[f"QLinearConv, {name}"] = ("", "QLinearConv", both, [np.dtype(dtype).name])
        to_float = [x[dtype], w, F32(0.02), scales, at]
        cases[f"MatMulIntegerToFloat, {name}"] = (MICROSOFT, "MatMulIntegerToFloat", to_float, ["float32"])
        gemm = [x[dtype], F32(0.02), at, w, scales, np.zeros(5, I8), rng.integers(-99, 99, 5, I32)]
        cases[f"QGemm, {name}"] = (MICROSOFT, "QGemm", gemm, ["float32"])
        cases[f"QGemm to integers, {name}"] = (MICROSOFT, "QGemm", [*gemm, F32(0.5), at], [np.dtype(dtype).name])
    cases["ConvInteger"] = ("", "ConvInteger", [image[U8], cube, U8(9)], ["int32"])
    attention = [_levels(rng, U8, 1, 4, 8), _weights(rng, 8, 24), rng.normal(size=24).astype(F32), F32(0.02), F32(0.03)]
    cases["QAttention"] = (MICROSOFT, "QAttention", [*attention, None, U8(100), I8(3)], ["float32"])
    cases["weights with a zero point"] = ("", "MatMulInteger", [x[U8], w, U8(100), I8(-3)], ["int32"])
    cases["weights that are fed"] = ("", "MatMulInteger", [x[U8], w, U8(100)], ["int32"], (0, 1))
    dynamic = (MICROSOFT, "DynamicQuantizeMatMul", [floats, w, scales, np.zeros(5, I8)], ["float32"])
    cases["DynamicQuantizeMatMul"] = dynamic
    cases["DynamicQuantizeMatMul without zero points"] = (MICROSOFT, dynamic[1], [floats, w, scales], ["float32"])
    sizes = rng.uniform(0.01, 0.02, (1, 32)).astype(F32)
    zeros = np.zeros((1, 32), I8)
    steps = [rng.normal(size=(4, 1, 5)).astype(F32), _weights(rng, 1, 5, 32), _weights(rng, 1, 8, 32)]
    lstm = [*steps, *[None] * 5, sizes, zeros, sizes, zeros]
    cases["DynamicQuantizeLSTM"] = (MICROSOFT, "DynamicQuantizeLSTM", lstm, ["float32"])
    return {name: (*case, (0,)) if len(case) == 4 else case for name, case in cases.items()}


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_stay(name: str) -> None:
    domain, op_type, inputs, outputs, fed = CASES[name]
    model, feeds = _node(op_type, inputs, outputs, domain=domain, fed=fed)

    unsigned = with_unsigned_weights(model)

    node = next(node for node in unsigned.graph if node.op_type == op_type)
    for place, zero_place in OPERATORS[domain, op_type].weights:
        assert [node.inputs[each].dtype for each in (place, zero_place)] == [ir.DataType.UINT8] * 2
    assert [output.name for output in unsigned.outputs] == [output.name for output in model.outputs]
    for before, after in zip(_run(model, feeds), _run(unsigned, feeds), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_nothing_saturates() -> None:
    x, w = np.full((2, 64), 255, U8), np.full((64, 3), 127, I8)
    model, feeds = _node("MatMulInteger", [x, w], ["int32"])

    (found,) = _run(with_unsigned_weights(model), feeds)

    np.testing.assert_array_equal(found, np.full((2, 3), 64 * 255 * 127))


WIDENED = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2, 8] x) => (float[2, 4] y, float[4] b) {
  m = DequantizeLinear<axis = 1>(w, scale)
  y = MatMul(x, m)
  b = DequantizeLinear(bias, one)
}"""


def test_matrices_that_are_widened_are_unsigned_too_and_biases_are_not() -> None:
    rng = np.random.default_rng(4)
    proto = onnx.parser.parse_model(WIDENED)
    scale = rng.uniform(0.01, 0.02, 4).astype(F32)
    for name, array in {"w": _levels(rng, I8, 8, 4), "scale": scale, "bias": I8([1, 2, 3, -4]), "one": F32(1)}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    feeds = {"x": rng.normal(size=(2, 8)).astype(F32)}

    unsigned = with_unsigned_weights(model)

    types = [node.inputs[0].dtype for node in unsigned.graph if node.op_type == "DequantizeLinear"]
    assert types == [ir.DataType.UINT8, ir.DataType.INT8]
    assert "w" not in unsigned.graph.initializers
    for before, after in zip(_run(model, feeds), _run(unsigned, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_a_model_without_signed_weights_stays_itself() -> None:
    model, _ = _node("MatMulInteger", [np.zeros((2, 4), U8), np.zeros((4, 3), U8)], ["int32"])

    assert with_unsigned_weights(model) is model
