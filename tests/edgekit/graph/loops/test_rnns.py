from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.loops.recurrences import recognize_recurrences
from tests.edgekit.graph.loops.layers_in_loops import FEATURES, SIZE, computed, filled

LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (float[{steps}, 2, 3] x, float[2, 5] fed) => (float[M, 2, 5] all, float[2, 5] h_end)
    <int32 start = {{0}}, float[3, 5] w, float[5, 5] r, float[5] b, float half = {{0.5}}> {{
    {count}
    end, h_end, all = Loop <body = body (int64 turn, bool go, int32 i, float[2, 5] h)
        => (bool more, int32 j, float[2, 5] h1, float[2, 5] row) {{
            more = Identity (go)
            step = Constant <value = int32 {{1}}> ()
            j = Add (i, step)
            xt = Gather (x, i)
            {step}
            row = Identity (h1)
        }}> (count, , start, fed)
}}"""
KNOWN = "count = Constant <value = int64 {4}> ()"
OPEN = "none = Constant <value = int64 {0}> ()  shape = Shape (x)  count = Gather <axis = 0> (shape, none)"
STEP = "xw = MatMul (xt, w)  xb = Add (xw, b)  hr = MatMul (h, r)  both = Add (xb, hr)  h1 = Tanh (both)"


def model_of(step: str = STEP, count: str = KNOWN, steps: int | str = 4) -> onnx.ModelProto:
    model = onnx.parser.parse_model(LOOP.format(step=step, count=count, steps=steps))
    return filled(model, {"w": (FEATURES, SIZE), "r": (SIZE, SIZE), "b": (SIZE,)})


@pytest.mark.parametrize(("count", "steps", "lengths"), [(KNOWN, 4, [4]), (OPEN, "N", [1, 3, 6])])
def test_a_loop_that_is_an_rnn_becomes_one(count: str, steps: int | str, lengths: list[int]) -> None:
    given = model_of(count=count, steps=steps)
    model = ir.from_proto(given)
    assert recognize_recurrences(model)
    (rnn,) = [node for node in model.graph if node.op_type in {"Loop", "RNN"}]
    assert (rnn.op_type, set(rnn.attributes)) == ("RNN", {"hidden_size"})
    changed = ir.to_proto(model)
    assert [output.name for output in changed.graph.output] == ["all", "h_end"]
    onnx.checker.check_model(changed, full_check=True)
    for length in lengths:
        for got, want in zip(computed(changed, length), computed(given, length), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(STEP.replace("Tanh", "Relu"), id="another activation"),
        pytest.param(STEP.replace("h1 = Tanh (both)", "t = Tanh (both)  h1 = Mul (t, half)"), id="half of it"),
        pytest.param(STEP.replace("hr = MatMul (h, r)", "hr = MatMul (xb, r)"), id="the state is not read"),
        pytest.param(STEP.replace("MatMul (h, r)", "MatMul (s, r)").replace("xw", "s = Sigmoid (h)  xw", 1), id="bent"),
    ],
)
def test_other_loops_stay(step: str) -> None:
    model = ir.from_proto(model_of(step))
    assert not recognize_recurrences(model)
    assert "Loop" in [node.op_type for node in model.graph]
