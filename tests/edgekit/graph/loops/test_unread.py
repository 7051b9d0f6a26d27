from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.unread import drop_unread_states

LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (int64 rounds, float[1, 4] x, bool go) => ({outputs}) <float[1] start = {{0}}, float four = {{4}}> {{
    last, total, cycle, length, steps, all = Loop <body = b
        (int64 number, bool before, float[1, 4] h, float[A, B] t, float[1, 4] c, float d)
        => (bool more, float[1, 4] n, float[1, 4] u, float[1, 4] v, float e, float[1, 4] s, float[1, 4] w) {{
            n = Tanh (h)  u = Neg (n)  a = Abs (c)  v = Mul (a, n)  e = Add (d, four)
            f = Mul (four, four)  more = Less (e, f)
            s = If (more) <then_branch = p () => (float[1, 4] y) {{ y = Identity ({inside}) }},
                           else_branch = q () => (float[1, 4] z) {{ z = Neg (n) }}>
            w = Neg (s)
        }}> (rounds, go, x, start, x, four)
}}"""


def model_of(*outputs: str, inside: str = "h") -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        LOOP.format(outputs=", ".join(f"float[M, N] {name}" for name in outputs), inside=inside)
    )
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def computed(model: onnx.ModelProto, rounds: int) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.array([[0.5, -1, 2, 3]], np.float32)
    return session.run(None, {"rounds": np.array(rounds), "x": x, "go": np.array(True)})


@pytest.mark.parametrize(
    ("outputs", "inside", "states", "collected"),
    [
        (["last"], "h", 2, 0),  # the length decides when it ends
        (["last", "steps"], "h", 2, 1),
        (["all"], "h", 2, 1),
        (["all"], "c", 3, 1),
        (["cycle", "total"], "h", 4, 0),
        (["last", "total", "cycle", "length", "steps", "all"], "h", 4, 2),
    ],
)
def test_what_no_output_depends_on_is_dropped(outputs: list[str], inside: str, states: int, collected: int) -> None:
    given = model_of(*outputs, inside=inside)
    model = ir.from_proto(given)
    drop_unread_states(model)
    (loop,) = [node for node in model.graph if node.op_type == "Loop"]
    assert (len(loop.inputs) - 2, len(loop.outputs) - (len(loop.inputs) - 2)) == (states, collected)
    changed = ir.to_proto(model)
    for rounds in (1, 3, 9):
        for found, expected in zip(computed(changed, rounds), computed(given, rounds), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_loop_that_nothing_reads_goes_as_a_whole() -> None:
    given = model_of("last")
    given.graph.output[0].name = "x2"
    given.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["x2"]))
    model = ir.from_proto(given)
    drop_unread_states(model)
    assert [node.op_type for node in model.graph] == ["Neg"]
