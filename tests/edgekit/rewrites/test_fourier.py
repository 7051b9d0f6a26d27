"""Fourier transforms of many numbers against NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from edgekit.graph.fourier_tables import two_steps
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.fourier import TabledTransform, TwoStepTransform, WholeTransform

RNG = np.random.default_rng(3)


def transform(shape, axis, length=None, opset=20, **attributes) -> Model:
    constants = {"length": length} if length is not None else {}
    inputs = ["x", "length" if constants else ""]
    if opset >= 20:
        constants["axis"] = axis
        inputs.append("axis")
    else:
        attributes["axis"] = axis
    node = helper.make_node("DFT", inputs, ["y"], "dft", **attributes)
    graph = helper.make_graph(
        [node],
        "transform",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(number), name) for name, number in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return infer_shapes(Model(ir.from_proto(proto)), strict=False)


def computed(model: Model, x: np.ndarray) -> np.ndarray:
    (y,) = ort.InferenceSession(model.proto().SerializeToString()).run(None, {"x": x})
    return y


def by_numpy(x, axis, length=None, inverse=0, onesided=0) -> np.ndarray:
    signal = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(signal, n=length, axis=axis)[..., None]
    if onesided:
        signal = signal.real
    found = {(0, 0): np.fft.fft, (1, 0): np.fft.ifft, (0, 1): np.fft.rfft}[inverse, onesided](
        signal, n=length, axis=axis
    )
    return np.stack([found.real, found.imag], -1)


def assert_near(found, expected) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


CASES = [
    ((2, 64, 1), 1, None, {}),
    ((3, 2, 48, 1), 2, None, {"onesided": 1}),
    ((2, 64, 3, 2), 1, 60, {"inverse": 1}),
    ((2, 50, 1), 1, 72, {"onesided": 1}),
    ((2, 80, 2), 1, 64, {}),
    ((2, 33, 2), 1, None, {"inverse": 1, "onesided": 1}),
    ((2, 3, 40, 2), 2, 63, {"inverse": 1, "onesided": 1}),
]


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(("shape", "axis", "length", "attributes"), CASES)
def test_transform_in_two_steps(shape, axis, length, attributes, opset) -> None:
    model = transform(shape, axis, length, opset, **attributes)
    result = rewritten(model, lambda it: {node_name(n) for n in it.graph if n.op_type == "DFT"}, [TwoStepTransform()])
    assert [node.op_type for node in result.model.graph].count("MatMul") == 2
    x = RNG.standard_normal(shape).astype(np.float32)
    assert_near(computed(result.model, x), by_numpy(x, axis, length, **attributes))


def test_two_steps_of_1024_numbers_have_a_thirtieth_of_the_table() -> None:
    steps = two_steps(1024, 2, inverse=False)
    assert steps is not None
    assert steps.cells < 4 * 1024**2 / 30


@pytest.mark.parametrize(("length", "shape"), [(67, (1, 67, 1)), (8, (1, 8, 1))])
def test_a_prime_transform_and_a_small_one_stay_one_table(length, shape) -> None:
    model = transform(shape, 1)
    result = rewritten(model, lambda it: {node_name(n) for n in it.graph if n.op_type == "DFT"}, [TwoStepTransform()])
    assert not result.applied


def is_refused(node: ir.Node) -> bool:
    """Refuses transforms as a runtime does that takes only whole transforms along axis 1."""
    if node.op_type != "DFT":
        return False
    axis = ir.convenience.get_const_tensor(node.inputs[2]) if len(node.inputs) > 2 else None
    return (axis is not None and int(axis.numpy()) != 1) or node.attributes.get_int("onesided", 0) == 1


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(
    ("shape", "axis", "length", "attributes"),
    [
        ((2, 64, 1), 1, None, {"onesided": 1}),
        ((3, 2, 50, 1), 2, 32, {"onesided": 1}),
        ((2, 3, 16, 2), 2, None, {}),
        ((2, 3, 33, 2), 2, None, {"inverse": 1, "onesided": 1}),
        ((2, 40, 2), 1, 32, {"inverse": 1, "onesided": 1}),
    ],
)
def test_whole_transform_along_axis_one(shape, axis, length, attributes, opset) -> None:
    model = transform(shape, axis, length, opset, **attributes)
    refused = is_refused if attributes or opset >= 20 else lambda node: node.name == "dft"
    result = rewritten(model, lambda it: {node_name(n) for n in it.graph if refused(n)}, [WholeTransform()])
    assert [node.op_type for node in result.model.graph].count("DFT") == 1
    assert not any(map(is_refused, result.model.graph))
    x = RNG.standard_normal(shape).astype(np.float32)
    assert_near(computed(result.model, x), by_numpy(x, axis, length, **attributes))


def test_a_root_of_the_spectrum_of_a_constant_signal_is_rounding() -> None:
    """Of a constant a fast transform leaves nothing in most bins, and a product with a table 1e-6 of the sum."""
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 512, 1] x) => (float[1, 257, 1] y) {'
        "[dft] s = DFT <axis = 1, onesided = 1> (x) p = ReduceSumSquare <axes = [-1]> (s) y = Pow (p, e) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.15), "e"))
    model = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    result = rewritten(model, lambda it: {node_name(n) for n in it.graph if n.op_type == "DFT"}, [TabledTransform()])
    assert not result.dropped
    assert [node.op_type for node in result.model.graph].count("MatMul") == 1


def test_a_window_shorter_than_its_frames_is_left(assert_left_alone):
    """ONNX Runtime refuses it, and the standard's reference computes it."""
    text = (
        '<ir_version: 9, opset_import: ["" : 17]>\ng (float[1, 32] x) => (float[1, A, 9, 2] y)'
        " <int64 step = {4}, int64 length = {16}> { y = STFT (x, step, window, length) }"
    )
    proto = parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(12, np.float32), "window"))
    assert_left_alone(proto, "STFT", {}, "its window has 12 numbers, and its frames 16")
