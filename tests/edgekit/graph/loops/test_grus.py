from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.loops.recurrences import recognize_recurrences
from tests.edgekit.graph.loops.layers_in_loops import FEATURES, SIZE, computed, filled

SHAPES = {"w": (FEATURES, 15), "r": (SIZE, 15), "b": (15,), "rb": (15,)}
LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (float[{steps}, 2, 3] x, float[2, 5] fed) => ({outputs})
    <int32 start = {{0}}, float[3, 15] w, float[5, 15] r, float[15] b, float[15] rb, float[5] ones = {{1, 1, 1, 1, 1}},
     float one = {{1}}, float two = {{2}}, float zero = {{0}}, float slope = {{0.2}}, float shift = {{0.5}},
     float[2, 5] zeros> {{
    {count}
    end, h_end, all, gates = Loop <body = b (int64 turn, bool go, int32 i, float[2, 5] h)
        => (bool more, int32 j, float[2, 5] h1, float[2, 5] row, float[2, 5] gate) {{
            more = Identity (go)
            step = Constant <value = int32 {{1}}> ()
            j = Add (i, step)
            xt = Gather (x, i)
            {sums}
            {z}
            {r}
            {fresh}
            n = {activation} (an)
            {mixed}
            row = Identity (h1)  gate = Neg (z)
        }}> (count, , start, {first})
}}"""
ALL = "float[M, 2, 5] all, float[2, 5] h_end"
KNOWN = "count = Constant <value = int64 {4}> ()"
OPEN = "none = Constant <value = int64 {0}> ()  shape = Shape (x)  count = Gather <axis = 0> (shape, none)"
SUMS = """w_z, w_r, w_n = Split <axis = 1> (w)  r_z, r_r, r_n = Split <axis = 1> (r)
    b_z, b_r, b_n = Split <axis = 0> (b)  rb_z, rb_r, rb_n = Split <axis = 0> (rb)
    hz = Mul (h, ones)
    xz = MatMul (xt, w_z)  xzb = Add (xz, b_z)  hrz = MatMul (hz, r_z)  az = Add (xzb, hrz)
    xr = MatMul (xt, w_r)  xrb = Add (xr, b_r)  hrr = MatMul (h, r_r)  ar = Add (xrb, hrr)
    xn = MatMul (xt, w_n)  xnb = Add (xn, b_n)"""
"""What Keras computes with ``implementation=1``: gate by gate."""
BEFORE = "hn = Mul (h, ones)  kept = Mul (r_gate, hn)  rest = MatMul (kept, r_n)  an = Add (xnb, rest)"
AFTER = "hn = MatMul (h, r_n)  hnb = Add (hn, rb_n)  rest = Mul (r_gate, hnb)  an = Add (xnb, rest)"
BESIDE = AFTER.replace("an = ", "reset = ") + "  an = Add (reset, hn)"
GATES = {
    "sigmoid": ("{y} = Sigmoid ({x})", None),
    "hard sigmoid": ("{y} = HardSigmoid <alpha = 0.3, beta = 0.4> ({x})", (0.3, 0.4)),
    "clipped": (
        "{x}s = Mul ({x}, slope)  {x}l = Add ({x}s, shift)  {y} = Clip ({x}l, zero, one)",
        (0.2, 0.5),
    ),
    "limited": (
        "{x}s = Mul (slope, {x})  {x}l = Add (shift, {x}s)  {x}m = Min ({x}l, one)  {y} = Max ({x}m, zero)",
        (0.2, 0.5),
    ),
}
MIXED = "left = Sub (one, z)  new = Mul (left, n)  old = Mul (z, h)  h1 = Add (old, new)"
DIFFERENCE = "apart = Sub (h, n)  scaled = Mul (z, apart)  h1 = Add (n, scaled)"


def model_of(
    *,
    gate="sigmoid",
    fresh=BEFORE,
    mixed=MIXED,
    count=KNOWN,
    first="fed",
    outputs=ALL,
    steps=4,
    activation="Tanh",
    sums=SUMS,
    reset_gate=None,
) -> onnx.ModelProto:
    text = LOOP.format(
        sums=sums,
        z=GATES[gate][0].format(y="z", x="az"),
        r=GATES[reset_gate or gate][0].format(y="r_gate", x="ar"),
        fresh=fresh,
        mixed=mixed,
        count=count,
        first=first,
        outputs=outputs,
        steps=steps,
        activation=activation,
    )
    return filled(onnx.parser.parse_model(text), SHAPES)


@pytest.mark.parametrize("mixed", [MIXED, DIFFERENCE])
@pytest.mark.parametrize("first", ["fed", "zeros"])
@pytest.mark.parametrize(("count", "steps", "lengths"), [(KNOWN, 4, [4]), (OPEN, "N", [1, 3, 6])])
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(("fresh", "resets_product"), [(BEFORE, 0), (AFTER, 1)])
def test_a_loop_that_is_a_gru_becomes_one(fresh, resets_product, gate, count, steps, lengths, first, mixed) -> None:
    given = model_of(gate=gate, fresh=fresh, mixed=mixed, count=count, steps=steps, first=first)
    model = ir.from_proto(given)
    assert recognize_recurrences(model)
    assert "Loop" not in [node.op_type for node in model.graph]
    (gru,) = [node for node in model.graph if node.op_type == "GRU"]
    assert gru.attributes["linear_before_reset"].as_int() == resets_product
    parameters = GATES[gate][1]
    if parameters is None:
        assert "activations" not in gru.attributes
    else:
        assert list(gru.attributes["activations"].as_strings()) == ["HardSigmoid", "Tanh"]
        found = [gru.attributes[name].as_floats()[0] for name in ("activation_alpha", "activation_beta")]
        np.testing.assert_allclose(found, parameters, rtol=1e-6)
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    for length in lengths:
        for got, want in zip(computed(changed, length), computed(given, length), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("axis", "becomes_one"), [(1, True), (0, False)])
def test_a_first_state_of_a_computed_size(axis, becomes_one) -> None:
    """tf2onnx puts the shape together in 32 bits, which shape inference does not look through before opset 13."""
    text = LOOP.format(
        sums=SUMS,
        z=GATES["sigmoid"][0].format(y="z", x="az"),
        r=GATES["sigmoid"][0].format(y="r_gate", x="ar"),
        fresh=BEFORE,
        mixed=MIXED,
        count=f"""{KNOWN}  shape = Shape (x)  narrow = Cast <to = 6> (shape)
            at = Constant <value = int64[1] {{{axis}}}> ()  behind = Constant <value = int64[1] {{{axis + 1}}}> ()
            along = Constant <value = int64[1] {{0}}> ()  size = Constant <value = int32[1] {{5}}> ()
            batch = Slice (narrow, at, behind, along)  both = Concat <axis = 0> (batch, size)
            wide = Cast <to = 7> (both)  start_state = Expand (zero, wide)""",
        first="start_state",
        outputs="float[M, B, 5] all, float[B, 5] h_end",
        steps=4,
        activation="Tanh",
    )
    given = filled(onnx.parser.parse_model(text.replace("float[4, 2, 3] x", "float[4, B, 3] x")), SHAPES)
    model = ir.from_proto(given)
    (start,) = [value for node in model.graph for value in node.outputs if value.name == "start_state"]
    start.shape = ir.Shape([None, None])
    assert recognize_recurrences(model) == becomes_one
    if becomes_one:
        for got, want in zip(computed(ir.to_proto(model), 4), computed(given, 4), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"activation": "Relu"}, id="another activation"),
        pytest.param({"reset_gate": "clipped"}, id="gates of two functions"),
        pytest.param({"mixed": MIXED.replace("(one, z)", "(two, z)")}, id="parts that do not add up to the whole"),
        pytest.param({"mixed": MIXED.replace("(z, h)", "(r_gate, h)")}, id="parts by two gates"),
        pytest.param({"mixed": DIFFERENCE.replace("(n, scaled)", "(h, scaled)")}, id="moved away from the new value"),
        pytest.param({"fresh": BEFORE.replace("(r_gate, hn)", "(r_gate, xnb)")}, id="a reset of the input"),
        pytest.param({"fresh": BESIDE}, id="a product beside it that is not reset"),
        pytest.param({"steps": 8}, id="it ends before the sequence does"),
        pytest.param({"outputs": f"{ALL}, float[M, 2, 5] gates"}, id="the gate of each step is read"),
        pytest.param({"sums": "t = Tanh (h)  " + SUMS.replace("(h, r_r)", "(t, r_r)")}, id="a function of the state"),
    ],
)
def test_other_loops_stay(options) -> None:
    model = ir.from_proto(model_of(**options))
    assert not recognize_recurrences(model)
    assert "Loop" in [node.op_type for node in model.graph]
