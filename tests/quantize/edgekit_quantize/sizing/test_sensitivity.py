"""What errors of weights are measured on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.sizing.sensitivity import FedModel

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x, bool b) => (float[1, 3] y, float[1, 3] z, float[1, 3] r) {
  m = MatMul(x, w)
  y = Softmax(m)
  z = Sigmoid(m)
  r = If(b) <then_branch = t () => (float[1, 3] p) { p = MatMul(x, v) },
             else_branch = e () => (float[1, 3] q) { q = Relu(m) }>
}"""


def test_errors_are_measured_before_they_are_swallowed(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, v, x = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (4, 3), (1, 4)))

    fed = FedModel(parse(MODEL, w=w, v=v), ["w", "v"])
    found = fed.run({"x": x, "b": np.array(True)}, {"v": 2 * v})

    assert [*found] == ["m", "r"]
    np.testing.assert_allclose(found["m"], x @ w, rtol=1e-5)
    np.testing.assert_allclose(found["r"], 2 * x @ v, rtol=1e-5)
