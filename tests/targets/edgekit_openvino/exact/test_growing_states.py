"""Loops whose states grow, where nothing reads the last of them: against ONNX Runtime, in runs of one request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino
from edgekit_openvino.exact.growing_states import read_growing_states

GIVEN = {
    "sizes": ("int64[2] u", "u = Shape (s)"),
    "sum": ("float u", "u = ReduceSum <keepdims = 0> (s)"),
    "mean of what comes next": ("float u", "u = ReduceMean <keepdims = 0> (v)"),
    "products": ("float[4, 4] u", "a = Transpose (s) u = MatMul (a, s)"),
}


def model_of(given: str, size: str = "2") -> onnx.ModelProto:
    declared, nodes = GIVEN[given]
    body = (
        f"<body = b (int64 i, bool c, float[p, 4] s) => (bool o, float[q, 4] v, {declared})"
        f" {{ o = Identity (c) v = Concat <axis = 0> (s, x) {nodes} }}>"
    )
    rows = declared.replace("[", "[K, ").replace(" u", " y") if "[" in declared else "float[K] y"
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{size}, 4] x, int64 k) => ({rows})'
        f" {{ last, y = Loop (k, , x) {body} }}"
    )


TAKES_TURNS = """<ir_version: 9, opset_import: ["" : 18]> g (float[2, 4] x, int64 k) => (float[K] y) {
  l, m, y = Loop (k, , x, x) <body = b (int64 i, bool c, float[p, 4] s, float[q, 4] t) =>
  (bool o, float[r, 4] v, float[w, 4] z, float u) {
    o = Identity (c) v = Identity (t) z = Concat <axis = 0> (t, s) u = ReduceSum <keepdims = 0> (s) }>
}"""


def assert_as_in_onnx_runtime(model: onnx.ModelProto, rows: list[int], path: Path) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, path))
    for place, steps in enumerate([2, 5, 1, 5, 3]):
        x = np.random.default_rng(place).standard_normal((rows[place % len(rows)], 4)).astype(np.float32)
        feeds = {"x": x, "k": np.array(steps)}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given", GIVEN)
def test_what_reads_a_growing_state_reads_all_of_it(given: str, tmp_path: Path) -> None:
    assert_as_in_onnx_runtime(model_of(given), [2], tmp_path / "fixed")
    assert_as_in_onnx_runtime(model_of(given, "N"), [2, 3, 1], tmp_path / "open")


def test_a_state_that_is_another_one_in_the_next_step_grows_too(tmp_path: Path) -> None:
    assert_as_in_onnx_runtime(onnx.parser.parse_model(TAKES_TURNS), [2], tmp_path / "model")


ONE_NUMBER_AT_FIRST = {
    "a state that no step reads": "v = Sub (x, x) u = ReduceSum <keepdims = 0> (x)",
    "a condition": """v = Slice (x, zero, one)
        u = If (s) <then_branch = p () => (float e) { e = Constant <value = float {1}> () },
                    else_branch = q () => (float h) { h = Constant <value = float {2}> () }>""",
    "a number that a branch hands on": """d = Cast <to = 9> (i)
        v = If (d) <then_branch = p () => (float[2] e) { e = Neg (x) }, else_branch = q () => (float h) { h = Neg (s) }>
        u = ReduceSum <keepdims = 0> (x)""",
    "sizes": "n = Unsqueeze (s, zero) v = Concat <axis = 0> (n, n) u = ReduceSum <keepdims = 0> (s)",
}
"""What a step does with a state that is one number at first; in the last case it reads the state's sizes."""


@pytest.mark.parametrize("given", ONE_NUMBER_AT_FIRST)
def test_only_states_whose_sizes_a_step_reads_are_read_as_a_whole(given: str) -> None:
    kind = "bool" if given == "a condition" else "float"
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g ({kind}[2] x, int64 k) => (float[K] y) {{
          first = Constant <value = {kind} {{0}}> ()
          last, y = Loop (k, , first) <body = b (int64 i, bool c, {kind} s) => (bool o, {kind} v, float u) {{
            zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            o = Identity (c) {ONE_NUMBER_AT_FIRST[given]} }}> }}"""
    )
    network = openvino.Core().read_model(model.SerializeToString())
    (loop,) = [node for node in network.get_ops() if node.get_type_name() == "Loop"]
    read_growing_states(loop)
    assert ("Select" in {node.get_type_name() for node in network.get_ops()}) == (given == "sizes")


def test_openvino_itself_takes_the_size_of_the_first() -> None:
    model = model_of("sizes")
    compiled = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU")
    feeds = {"x": np.zeros((2, 4), np.float32), "k": np.array(3)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, feeds)[0][:, 0], [2, 4, 6])
    places = {name: n for n, port in enumerate(compiled.inputs) for name in port.get_names()}
    found = compiled({places.get("x", 0): feeds["x"], places.get("k", 1): feeds["k"]})
    assert not np.array_equal(found[0][:, 0], [2, 4, 6])
