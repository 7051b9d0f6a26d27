"""Random numbers times zero, against ONNX Runtime, which draws them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.cancelled_draws import without_cancelled_draws
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

HEAD = '<ir_version: 8, opset_import: ["" : 15]> draws (float[2, 3] x) => (float[N, M] y)'
NOTHING = "<float[1] zero = {0}, float[1] some = {0.5}, int64[2] turned = {3, 2}>"


def parsed(body: str) -> Model:
    return infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(f"{HEAD} {NOTHING} {{ {body} }}"))))


def run(model: Model, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize(
    "body",
    [
        "n = RandomNormalLike (x) s = Mul (n, zero) y = Add (x, s)",
        "n = RandomNormalLike (x) e = Exp (x) d = Mul (n, e) s = Mul (zero, d) y = Add (x, s)",
        "n = RandomUniformLike (x) r = Reshape (n, turned) t = Transpose (r) s = Mul (t, zero) y = Add (x, s)",
        "n = RandomNormal <shape = [2, 3]> () s = Mul (n, zero) y = Add (x, s)",
        "n = RandomNormal <shape = [2, 3]> () a = Mul (n, zero) b = Mul (zero, n) s = Add (a, b) y = Add (x, s)",
    ],
)
def test_they_become_zeros(body: str) -> None:
    """A speech model that was exported with a noise scale of 0 draws as many as a run of it takes steps."""
    model = parsed(body)
    changed, cancelled = without_cancelled_draws(model)
    assert len(cancelled) == 1
    assert not {node.op_type for node in changed.graph} & {"RandomNormal", "RandomNormalLike", "RandomUniformLike"}
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(changed, x), run(model, x))


@pytest.mark.parametrize(
    "body",
    [
        "n = RandomNormalLike (x) s = Mul (n, some) y = Add (x, s)",
        "n = RandomNormalLike (x) s = Mul (n, zero) t = Add (n, s) y = Add (x, t)",
        "n = RandomNormalLike (x) e = Exp (n) s = Mul (e, zero) y = Add (x, s)",
        "y = RandomNormalLike (x)",
    ],
    ids=["another scale", "read elsewhere", "an exponential", "returned"],
)
def test_others_stay(body: str) -> None:
    """An exponential may be infinite, and infinity times zero is no number."""
    model = parsed(body)
    assert without_cancelled_draws(model) == (model, [])
