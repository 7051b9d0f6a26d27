"""HardSigmoid with a slope of 1/6 in the form that OpenVINO computes inside of the layer before it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit_openvino.quick.activations import fuse_hard_sigmoids

FEEDS = {"x": np.linspace(-5, 5, 2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)}


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]>\ng (float[2, 3, 4, 4] x) => {body}')


def built(proto: onnx.ModelProto, folder: Path) -> tuple[dict[str, np.ndarray], Counter[str]]:
    path = edgekit_openvino.convert(proto, folder / "model")
    network = openvino.Core().read_model(path)
    kinds = Counter(operation.get_type_name() for operation in network.get_ops())
    return edgekit_openvino.load(path).run(FEEDS), kinds


SWISH = "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)"


@pytest.mark.parametrize(
    ("nodes", "swishes", "sigmoids"),
    [
        (f"{SWISH} y = Mul (x, h)", 1, 0),
        (f"{SWISH} y = Mul (h, x)", 1, 0),
        (f"{SWISH} m = Mul (h, x) n = Neg (h) y = Add (m, n)", 1, 1),
        (f"{SWISH} y = Mul (h, h)", 0, 1),
        (f"{SWISH} n = Neg (x) y = Mul (n, h)", 0, 1),
        ("h = HardSigmoid <alpha = 0.2, beta = 0.5> (x) y = Mul (x, h)", 0, 0),
        ("h = HardSigmoid <alpha = 0.16666667, beta = 0.4> (x) y = Mul (x, h)", 0, 0),
    ],
)
def test_a_hard_sigmoid_of_a_sixth_is_one_that_openvino_fuses(
    tmp_path: Path, nodes: str, swishes: int, sigmoids: int
) -> None:
    proto = parsed(f"(float[2, 3, 4, 4] y) {{ {nodes} }}")
    (expected,) = ReferenceEvaluator(proto).run(None, FEEDS)
    found, kinds = built(proto, tmp_path)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-6, atol=1e-6)
    assert (kinds["HSwish"], kinds["HSigmoid"]) == (swishes, sigmoids)
    assert kinds["HardSigmoid"] == (not swishes and not sigmoids)


def test_outputs_keep_their_names(tmp_path: Path) -> None:
    proto = parsed(f"(float[2, 3, 4, 4] h, float[2, 3, 4, 4] y) {{ {SWISH} y = Mul (x, h) }}")
    for name, expected in zip(("h", "y"), ReferenceEvaluator(proto).run(None, FEEDS), strict=True):
        np.testing.assert_allclose(built(proto, tmp_path)[0][name], expected, rtol=1e-6, atol=1e-6)


def test_a_hard_sigmoid_in_a_branch() -> None:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13]>
        g (bool c, float[4] x) => (float[4] y) {{
            y = If (c) <
                then_branch = t () => (float[4] p) {{ {SWISH} p = Mul (x, h) }},
                else_branch = e () => (float[4] q) {{ q = Neg (x) }}
            >
        }}"""
    )
    network = openvino.Core().read_model(proto.SerializeToString())
    assert fuse_hard_sigmoids(network) == 1
    compiled = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    feeds = {"c": np.array(True), "x": np.float32([-4, -1, 1, 4])}
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(compiled(feeds)[0], expected, rtol=1e-6)
