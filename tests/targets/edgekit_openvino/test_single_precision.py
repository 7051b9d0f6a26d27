"""Models in double precision, which OpenVINO computes in single precision, keep doubles at their borders alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest

import edgekit_openvino
from edgekit.model import Model
from edgekit_openvino.single_precision import in_single_precision

RNG = np.random.default_rng(5)
DISTANCES = """<ir_version: 8, opset_import: ["" : 13]>
g (double[n, 6] x) => (double[80, n] y) <double[1] three = {3}> {
    apart = Sub (x, known)
    squares = ReduceSumSquare <axes = [2], keepdims = 0> (apart)
    y = Div (squares, three)
}"""
MANY = """<ir_version: 8, opset_import: ["" : 17]>
g (double[3] x, int64 n, bool go, double[3] same) => (double[3] y, double[3] z, double[3] same_out, float[3] f, int64 k)
    <double[3] w = {1.5, -2, 0.25}, int64[1] three = {3}> {
    ones = ConstantOfShape <value = double[1] {1}> (three)
    five = Constant <value = double[3] {5, 5, 5}> ()
    t = Add (x, ones)
    y = Loop <body = b (int64 i, bool c, double[3] s) => (bool d, double[3] s2) {
            half = Constant <value = double {0.5}> ()
            s1 = Mul (s, half)  s2 = Add (s1, w)  d = Identity (c)
        }> (n, go, t)
    z = If (go) < then_branch = p () => (double[3] a) { a = Mul (x, five) },
                  else_branch = q () => (double[3] b) { b = Neg (same) }>
    same_out = Identity (same)
    f = Cast <to = 1> (y)
    g0 = Cast <to = 11> (f)
    top = ReduceMax <keepdims = 0> (g0)
    k = Cast <to = 7> (top)
}"""


def distances() -> onnx.ModelProto:
    proto = onnx.parser.parse_model(DISTANCES)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(RNG.uniform(0.1, 1.5, (80, 1, 6)), "known"))
    return proto


def expected(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))


def test_a_quotient_behind_a_reduction(tmp_path: Path) -> None:
    proto, feeds = distances(), {"x": RNG.uniform(0.1, 1, (4, 6))}
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "built")).run(feeds)
    np.testing.assert_allclose(found["y"], expected(proto, feeds)["y"], rtol=1e-5)


def test_openvino_still_divides_by_something_else(tmp_path: Path) -> None:
    proto, feeds = distances(), {"x": RNG.uniform(0.1, 1, (4, 6))}
    network = openvino.Core().read_model(proto.SerializeToString())
    found = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([feeds["x"]])[0]
    assert not np.allclose(found, expected(proto, feeds)["y"], rtol=1e-3, equal_nan=False)


@pytest.mark.parametrize("go", [True, False])
def test_branches_loops_and_constants(tmp_path: Path, *, go: bool) -> None:
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(MANY))
    feeds = {
        "x": RNG.standard_normal(3),
        "n": np.array(4),
        "go": np.array(go),
        "same": np.array([1, -np.inf, 3.0]),
    }
    model = Model(ir.from_proto(proto))
    single = ir.to_proto(in_single_precision(model).graph_model)
    onnx.checker.check_model(single, full_check=True)
    inside = [initializer.data_type for initializer in single.graph.initializer]
    assert onnx.TensorProto.DOUBLE not in inside
    assert ir.to_proto(model.graph_model) == ir.to_proto(ir.from_proto(proto))
    for name, wanted in expected(proto, feeds).items():
        got = expected(single, feeds)[name]
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_model_without_doubles_is_the_same() -> None:
    model = Model(
        ir.from_proto(
            onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[3] x) => (float[3] y) { y = Neg (x) }""")
        )
    )
    assert in_single_precision(model) is model
