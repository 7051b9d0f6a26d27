from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.picks import with_picks

LOOP = """<ir_version: 9, opset_import: ["": 17]>
g (float[A, B, C] x, int32 first, int64 turns) => (float[N, D, E] y)
    <int32[1] none = {{0}}, int32[1] one = {{1}}, int32[1] two = {{2}},
    int32[1] fars = {{1000000000}}, int32[2] long = {{1, 1000000000}}, int64[1] to = {{1}}, int32[2] axes = {{0, 1}},
    int32[2] strides = {{2, 1000000000}}, int32[2] turned = {{1, 0}}, float[2] f_far = {{1e9, 1e9}},
    int64[1] at = {{0}}> {{
    i_end, y = Loop <body = b (int64 turn, bool go, int32 i) => (bool on, int32 j, float[D, E] row) {{
            on = Identity (go)  step = Squeeze (one, at)  j = Add (i, step)
            place = Unsqueeze (i, at)
            {nodes}
        }}> (turns, , first)
}}"""
STARTS = "starts = Concat <axis = 0> (none, place)  stops = Concat <axis = 0> (fars, fars)"
TAKEN = "part = Slice (x, starts, stops, axes, long)  row = Squeeze (part, to)"
X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


def model_of(nodes: str) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(LOOP.format(nodes=nodes)))


def computed(model: onnx.ModelProto, first: int, turns: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": X, "first": np.array(first, np.int32), "turns": np.array(turns)})
    return y


def changed(given: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Returns the model with the picks changed, and the operators that are then in the loop."""
    model = ir.from_proto(given)
    (loop,) = [node for node in model.graph if node.op_type == "Loop"]
    before = loop.attributes["body"].as_graph()
    body = with_picks(before)
    assert (body is before) == ([node.op_type for node in body] == [node.op_type for node in before])
    loop.attributes["body"] = ir.AttrGraph("body", body)
    return ir.to_proto(model), [node.op_type for node in body]


@pytest.mark.parametrize(
    ("nodes", "has_slice"),
    [
        pytest.param(f"{STARTS}  {TAKEN}", False, id="one column"),
        pytest.param(
            "b = Less (axes, long)  n = Not (b)  up = Concat <axis = 0> (none, place)  starts = Where (n, axes, up)  "
            f"f = Cast <to = 1> (up)  m = Max (f, f_far)  stops = Cast <to = 6> (m)  {TAKEN}",
            False,
            id="one column, with the masks of TensorFlow",
        ),
        pytest.param(f"{STARTS}  {TAKEN}".replace("none, place", "one, place"), True, id="of a part of the rows"),
        pytest.param(
            f"{STARTS}  n = Unsqueeze (j, at)  m = Max (n, one)  stops2 = Concat <axis = 0> (m, fars)  {TAKEN}".replace(
                "(x, starts, stops,", "(x, starts, stops2,"
            ),
            True,
            id="of rows that are computed",
        ),
        pytest.param(
            f"{STARTS}  {TAKEN}".replace("axes, long", "turned, long").replace("(part, to)", "(part, at)"),
            False,
            id="one row",
        ),
    ],
)
def test_a_slice_of_one_index_becomes_a_gather(nodes, has_slice) -> None:
    given = model_of(nodes)
    model, operators = changed(given)
    assert "Gather" in operators
    assert ("Slice" in operators) == has_slice
    onnx.checker.check_model(model, full_check=True)
    for first in range(-7, 2):
        np.testing.assert_array_equal(computed(model, first, 1), computed(given, first, 1))


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(f"{STARTS}  {TAKEN}".replace("axes, long", "axes, strides"), id="other steps"),
        pytest.param(f"{STARTS}  {TAKEN}".replace("axes, long", "axes, axes"), id="short steps"),
        pytest.param(f"{STARTS}  {TAKEN}  n = Shape (part)", id="it may be empty"),
    ],
)
def test_other_slices_stay(nodes) -> None:
    _, operators = changed(model_of(nodes))
    assert "Gather" not in operators
