from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.loops.recurrences import recognize_recurrences
from tests.edgekit.graph.loops.layers_in_loops import computed, filled

STEPS = 4
LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (float[{steps}, 2, 3] x, float[2, 5] fed) => ({outputs})
    <int32 start = {{0}}, int64[1] at = {{0}}, float[3, 20] w, float[5, 20] r, float[8, 20] wr, float[20] b,
     float[5] ones = {{1, 1, 1, 1, 1}}, float forget_bias = {{1}}, float[2, 5] zeros> {{
    {count}
    end, h_end, c_end, all, cells = Loop <body = b (int64 turn, bool go, int32 i, float[2, 5] h, float[2, 5] c)
        => (bool more, int32 j, float[2, 5] h1, float[2, 5] c1, float[2, 5] row, float[2, 5] cell) {{
            more = Identity (go)
            step = Constant <value = int32 {{{step}}}> ()
            j = Add (i, step)
            xt = Gather (x, i)
            {gates}
            si = Sigmoid (gi)  sf = Sigmoid (gf)  so = Sigmoid (go1)  tg = {activation} (gg)
            kept = Mul ({state}, sf)  taken = Mul (si, tg)  c1 = Add (taken, kept)
            tc = Tanh (c1)  h1 = Mul (so, tc)  row = Identity (h1)  cell = Neg (c1)
        }}> (count, , start, {first}, {first})
}}"""
ALL = "float[M, 2, 5] all, float[2, 5] h_end, float[2, 5] c_end"
KNOWN = "count = Constant <value = int64 {4}> ()"
OPEN = "zero = Constant <value = int64 {0}> ()  shape = Shape (x)  count = Gather <axis = 0> (shape, zero)"
JOINED = """mx = MatMul (xt, w)  mh = MatMul (h, r)  both = Add (mx, mh)  total = Add (both, b)
    gi, gf, gg, go1 = Split <axis = 1> (total)"""
ONE_BY_ONE = "w_i, w_f, w_g, w_o = Split <axis = 1> (w)  b_i, b_f, b_g, b_o = Split <axis = 0> (b)" + "".join(
    f"""
    from_{k} = Constant <value = int64[2] {{0, {5 * place}}}> ()
    to_{k} = Constant <value = int64[2] {{9, {5 * place + 5}}}> ()
    r_{k} = Slice (r, from_{k}, to_{k})  x_{k} = MatMul (xt, w_{k})  xb_{k} = Add (x_{k}, b_{k})
    h_{k} = Mul (h, ones)  hr_{k} = MatMul (h_{k}, r_{k})  g{k if k != "o" else "o1"} = Add (xb_{k}, hr_{k})"""
    for place, k in enumerate("ifgo")
)
SIDE_BY_SIDE = """row_of = Concat <axis = 1> (xt, h)  total = Gemm (row_of, wr, b)
    gi, gg, gf0, go1 = Split <axis = 1> (total)  gf = Add (gf0, forget_bias)"""


def model_of(
    gates=JOINED, *, count=KNOWN, first="fed", outputs=ALL, steps=STEPS, step=1, activation="Tanh", state="c"
) -> onnx.ModelProto:
    text = LOOP.format(
        gates=gates,
        count=count,
        first=first,
        outputs=outputs,
        steps=steps,
        step=step,
        activation=activation,
        state=state,
    )
    return filled(onnx.parser.parse_model(text), {"w": (3, 20), "r": (5, 20), "wr": (8, 20), "b": (20,)})


@pytest.mark.parametrize("first", ["fed", "zeros"])
@pytest.mark.parametrize(("count", "steps", "lengths"), [(KNOWN, STEPS, [STEPS]), (OPEN, "N", [1, 3, 6])])
@pytest.mark.parametrize("gates", [JOINED, ONE_BY_ONE, SIDE_BY_SIDE])
def test_a_loop_that_is_an_lstm_becomes_one(gates, count, steps, lengths, first) -> None:
    given = model_of(gates, count=count, steps=steps, first=first)
    model = ir.from_proto(given)
    assert recognize_recurrences(model)
    operators = [node.op_type for node in model.graph]
    assert "Loop" not in operators
    assert operators.count("LSTM") == 1
    (lstm,) = [node for node in model.graph if node.op_type == "LSTM"]
    assert (len(lstm.inputs) > 5 and lstm.inputs[5] is not None) == (first == "fed")
    changed = ir.to_proto(model)
    onnx.checker.check_model(changed, full_check=True)
    for length in lengths:
        for got, want in zip(computed(changed, length, 1.0), computed(given, length, 1.0), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"activation": "Relu"}, id="another activation"),
        pytest.param({"state": "h"}, id="another state is kept"),
        pytest.param({"step": 2, "steps": 8}, id="every second row"),
        pytest.param({"steps": 8}, id="it ends before the sequence does"),
        pytest.param({"outputs": f"{ALL}, float[M, 2, 5] cells"}, id="the memory of each step is read"),
        pytest.param({"gates": "t = Tanh (h)  " + JOINED.replace("(h, r)", "(t, r)")}, id="a function of the state"),
    ],
)
def test_other_loops_stay(options) -> None:
    model = ir.from_proto(model_of(**options))
    assert not recognize_recurrences(model)
    assert "Loop" in [node.op_type for node in model.graph]


def test_a_first_state_of_another_batch_stays() -> None:
    text = ir.to_proto(ir.from_proto(model_of(first="zeros")))
    (x, _) = text.graph.input
    x.type.tensor_type.shape.dim[1].dim_value = 1  # the state spreads over its own batch in the first turn
    for value in list(text.graph.value_info):
        text.graph.value_info.remove(value)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(text))
    assert not recognize_recurrences(model)
