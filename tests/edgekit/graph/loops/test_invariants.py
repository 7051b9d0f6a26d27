from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.invariants import capture_constant_states

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


DIRECT = """<ir_version: 9, opset_import: ["": 17]>
g (int64 rounds, float[1, 4] x) => (float[1, 4] last) <float[4, 4] w> {{
    on = Constant <value = bool {{1}}> ()
    {results} = Loop <body = outer (int64 number, bool go, float[1, 4] h, float[4, 4] kernel) => (bool more, {given}) {{
        more = Identity (go)  {nodes}
    }}> (rounds, on, x, w)
}}"""
INNER = """n, inner_kernel = Loop <body = inner
    (int64 again, bool run, float[1, 4] p, float[4, 4] q) => (bool still, float[1, 4] r, float[4, 4] q) {
        still = Identity (run)  m = MatMul (p, q)  r = Tanh (m)
    }> (rounds, go, h, kernel)"""


ONLY = """<ir_version: 9, opset_import: ["": 17]>
g (int64 rounds) => (float[4, 4] y) <float[4, 4] w> {
    on = Constant <value = bool {1}> ()
    kept = Loop <body = b (int64 number, bool go, float[4, 4] k) => (bool more, float[4, 4] k) { more = Identity (go) }>
        (rounds, on, w)
    y = Neg (kept)
}"""


def with_weights(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    del model.graph.initializer[:]
    w = np.random.default_rng(0).uniform(-1, 1, (4, 4)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return model


def test_a_loop_in_a_loop_captures_what_the_outer_one_does() -> None:
    given = with_weights(DIRECT.format(results="last, kept", given="float[1, 4] n, float[4, 4] kernel", nodes=INNER))
    model = ir.from_proto(given)
    capture_constant_states(model)
    loops = [node for node in model.graph.all_nodes() if node.op_type == "Loop"]
    assert [len(loop.inputs) for loop in loops] == [3, 3]
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    feeds = {"rounds": np.array(3), "x": np.random.default_rng(1).uniform(-1, 1, (1, 4)).astype(np.float32)}
    (got,), (want,) = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (changed, given)
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_state_that_is_collected_as_it_is_stays() -> None:
    outputs = "float[1, 4] n, float[4, 4] kernel, float[4, 4] kernel"
    nodes = "m = MatMul (h, kernel)  n = Tanh (m)"
    model = ir.from_proto(with_weights(DIRECT.format(results="last, kept, all", given=outputs, nodes=nodes)))
    capture_constant_states(model)
    assert states(model) == 2


def test_a_loop_keeps_an_output() -> None:
    model = ir.from_proto(with_weights(ONLY))
    capture_constant_states(model)
    assert states(model) == 1


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
