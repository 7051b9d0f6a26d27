"""Models with float32 in place of other types inside compute the same, and keep their inputs and outputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.single_precision import in_single_precision

HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
RNG = np.random.default_rng(5)
MANY = """<ir_version: 10, opset_import: ["" : 21]>
g (double[3] x, int64 n, bool go, double[3] same)
    => (double[3] y, double[3] z, double[3] same_out, float[3] f, int64 k, double[2, 3] q)
    <double[3] w = {1.5, -2, 0.25}, int64[1] three = {3}> {
    ones = ConstantOfShape <value = double[1] {1}> (three)
    five = Constant <value = double[3] {5, 5, 5}> ()
    t = Add (x, ones)
    y = Loop <body = b (int64 i, bool c, double[3] s) => (bool d, double[3] s2) {
            half = Constant <value = double {0.5}> ()
            s1 = Mul (s, half)  s2 = Add (s1, w)  d = Identity (c)
        }> (n, go, t)
    z = If (go) < then_branch = p () => (double[3] a) { a = Mul (x, five) },
                  else_branch = r () => (double[3] e) { e = Neg (same) }>
    same_out = Identity (same)
    wide = Cast <to = 1> (y)
    f = Exp (wide)
    narrow = Cast <to = 11> (f)
    top = ReduceMax <keepdims = 0> (narrow)
    k = Cast <to = 7> (top)
    both = SequenceConstruct (narrow, x)
    q = ConcatFromSequence <axis = 0, new_axis = 1> (both)
}"""


def halved(graph: onnx.GraphProto) -> None:
    """Writes half precision in place of doubles, since ONNX's parser reads no tensors of it."""
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for tensor in graph.initializer:
        halve(tensor)
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.name == "to" and attribute.i == onnx.TensorProto.DOUBLE:
            attribute.i = onnx.TensorProto.FLOAT16
        halve(attribute.t)
        halved(attribute.g)


def halve(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.DOUBLE:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def outputs(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, feeds)
    return found


@pytest.mark.parametrize("go", [True, False])
@pytest.mark.parametrize(("kind", "tolerance"), [(np.float64, 1e-6), (np.float16, 2e-2)])  # half rounds at each step
def test_branches_loops_sequences_and_constants(kind: type, tolerance: float, *, go: bool) -> None:
    proto = onnx.parser.parse_model(MANY)
    if kind is np.float16:
        halved(proto.graph)
    proto = onnx.shape_inference.infer_shapes(proto)
    model = ir.from_proto(proto)
    types = HALVES if kind is np.float16 else (ir.DataType.DOUBLE,)
    single = ir.to_proto(in_single_precision(model, types))
    feeds = {
        "x": RNG.standard_normal(3).astype(kind),
        "n": np.array(4),
        "go": np.array(go),
        "same": np.array([1, -np.inf, 3.0], kind),
    }

    onnx.checker.check_model(single, full_check=True)
    assert not {each.data_type for each in single.graph.initializer} & set(types)
    assert ir.to_proto(model) == ir.to_proto(ir.from_proto(proto))
    for expected, found in zip(outputs(proto, feeds), outputs(single, feeds), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0 if kind is np.float64 else 1e-2)


def test_conversions_that_change_nothing_any_more_are_dropped() -> None:
    """As exporters write a normalization of a model in half precision."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float16[2, 4] x) => (float16[2, 4] y) <float16[4] w = {1, 2, 3, 4}> {
        a = Mul (x, w)  b = Cast <to = 1> (a)  c = Softmax (b)  d = Cast <to = 10> (c)  y = Mul (d, w)
    }"""
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    found = in_single_precision(ir.from_proto(proto), HALVES)
    assert [node.op_type for node in found.graph] == ["Cast", "Mul", "Softmax", "Mul", "Cast"]


def test_brain_floats_are_exchanged_too() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) { a = Cast <to = 1> (w)  y = Mul (x, a) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, [2], [1.5, -3]))
    found = ir.to_proto(in_single_precision(ir.from_proto(proto), HALVES))
    assert [node.op_type for node in found.graph.node] == ["Mul"]
    np.testing.assert_array_equal(outputs(found, {"x": np.array([2, 4], np.float32)})[0], [3, -12])


def test_a_model_without_such_numbers_is_the_same() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Neg (x) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert in_single_precision(model, HALVES) is model
