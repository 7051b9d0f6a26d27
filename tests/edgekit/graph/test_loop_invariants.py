from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loop_invariants import capture_constant_states

LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (int64 rounds, float[1, 4] x, float[4, 4] fed) => ({outputs}) <float[4, 4] w, float[4, 4] start> {{
    on = Constant <value = bool {{1}}> ()
    last, weights, steps = Loop <body = b
        (int64 number, bool go, float[1, 4] h, float[4, 4] kernel)
        => (bool more, float[1, 4] n, float[4, 4] k, float[1, 4] s) {{
            more = Identity (go)  m = MatMul (h, kernel)  n = Tanh (m)  s = Neg (n)  {kept}
        }}> (rounds, on, x, {first})
    both = MatMul (last, weights)
}}"""
ALL = "float[1, 4] last, float[1, 4] both, float[N, 1, 4] steps"


def model_of(first: str = "w", kept: str = "k = Identity (kernel)", outputs: str = ALL) -> onnx.ModelProto:
    model = onnx.parser.parse_model(LOOP.format(first=first, kept=kept, outputs=outputs))
    arrays = {name: np.random.default_rng(0).uniform(-1, 1, (4, 4)).astype(np.float32) for name in ("w", "start")}
    del model.graph.initializer[:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[name], name) for name in ("w", "start"))
    return model


def states(model: ir.Model) -> int:
    (loop,) = [node for node in model.graph if node.op_type == "Loop"]
    return len(loop.inputs) - 2


def computed(model: onnx.ModelProto, rounds: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    feeds = {"rounds": np.array(rounds), "x": rng.uniform(-1, 1, (1, 4)), "fed": rng.uniform(-1, 1, (4, 4))}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    types = {"rounds": np.int64}
    return session.run(None, {name: np.asarray(feed, types.get(name, np.float32)) for name, feed in feeds.items()})


@pytest.mark.parametrize("kept", ["k = Identity (kernel)", "a = Identity (kernel)  k = Identity (a)"])
def test_a_weight_that_is_a_state_is_captured(kept: str) -> None:
    given = model_of(kept=kept)
    model = ir.from_proto(given)
    capture_constant_states(model)
    assert states(model) == 1
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    for rounds in (0, 1, 5):
        for got, want in zip(computed(changed, rounds), computed(given, rounds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # it packs constants, and adds in another order


@pytest.mark.parametrize(
    ("first", "kept", "outputs"),
    [
        pytest.param("fed", "k = Identity (kernel)", ALL, id="it is fed"),
        pytest.param("start", "k = MatMul (kernel, kernel)", ALL, id="it changes"),
        pytest.param("w", "k = Identity (kernel)", f"{ALL}, float[4, 4] weights", id="the model gives it"),
    ],
)
def test_other_states_stay(first: str, kept: str, outputs: str) -> None:
    model = ir.from_proto(model_of(first, kept, outputs))
    capture_constant_states(model)
    assert states(model) == 2
