"""Models in double precision, which OpenVINO computes in single precision, keep doubles at their borders alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino

import edgekit_openvino
from edgekit.model import Model
from edgekit_openvino.loadable.single_precision import in_single_precision

RNG = np.random.default_rng(5)
DISTANCES = """<ir_version: 8, opset_import: ["" : 13]>
g (double[n, 6] x) => (double[80, n] y) <double[1] three = {3}> {
    apart = Sub (x, known)
    squares = ReduceSumSquare <axes = [2], keepdims = 0> (apart)
    y = Div (squares, three)
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


def test_a_model_without_doubles_is_the_same() -> None:
    model = Model(
        ir.from_proto(
            onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[3] x) => (float[3] y) { y = Neg (x) }""")
        )
    )
    assert in_single_precision(model) is model
