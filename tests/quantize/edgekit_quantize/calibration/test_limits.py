"""What tensors can reach at all."""

from __future__ import annotations

import math

import onnx.parser
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.limits import limits


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Sigmoid (x)", (0, 1)),
        ("t = Tanh (x) y = Transpose (t)", (-1, 1)),
        ("t = Softmax (x) p = Sigmoid (x) h = Tanh (x) y = Concat <axis = 1> (t, p, h)", (-1, 1)),
        ("t = Tanh (x) y = Concat <axis = 1> (t, x)", None),
        (
            "low = Constant <value_float = 0.0> () high = Constant <value_float = 6.0> () y = Clip (x, low, high)",
            (0, 6),
        ),
        ("low = Constant <value_float = -2.0> () y = Clip (x, low)", (-2, math.inf)),
        ("t = Tanh (x) y = Clip (t)", (-1, 1)),
        ("t = Tanh (x) y = Add (t, t)", None),
        ("y = Relu (x)", None),
    ],
)
def test_of_operators(nodes: str, expected: tuple[float, float] | None) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[a, b] y) {{ {nodes} }}'
    assert limits(ir.from_proto(onnx.parser.parse_model(text)).graph).get("y") == expected
