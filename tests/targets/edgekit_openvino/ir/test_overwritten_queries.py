"""Attention with as many heads as positions, of which OpenVINO's kernel overwrites queries that it still reads."""

from __future__ import annotations

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino

ATTENTION = (
    "columns = Transpose <perm = [0, 1, 3, 2]> (xk)  products = MatMul (queries, columns)  scores = {scores}"
    "  weights = Softmax <axis = -1> (scores)  result = MatMul (weights, xv)  "
)
PLAIN = ATTENTION.format(scores="Identity (products)")
SWAP = "Transpose <perm = [0, 2, 1, 3]>"
MISREAD = {
    "result": f"queries = Relu (xq)  {PLAIN} y = {SWAP} (result)",
    "queries": f"a = Relu (xq)  queries = {SWAP} (a)  {PLAIN} y = Identity (result)",
    "queries ahead of arithmetic": f"a = Relu (xq)  b = {SWAP} (a)  queries = Tanh (b)  {PLAIN} y = Identity (result)",
    "scaled scores": f"queries = Relu (xq)  {ATTENTION.format(scores='Mul (products, half)')} y = {SWAP} (result)",
    "reshaped": f"queries = Reshape (xq, sizes)  {PLAIN} z = {SWAP} (result)  y = Reshape (z, sizes)",
    "Softmax of three axes": f"queries = Relu (xq)  columns = Transpose <perm = [0, 1, 3, 2]> (xk)"
    "  a = MatMul (queries, columns)  b = Reshape (a, rows)  c = Softmax <axis = -1> (b)  weights = Reshape (c, square)"
    f"  result = MatMul (weights, xv)  y = {SWAP} (result)",
    "in a branch": f"""a = ReduceSum <keepdims = 0> (xk)  b = Greater (a, half)  y = If (b) <
        then_branch = one () => (float[2, 4, 4, 8] r) {{ queries = Relu (xq)  {PLAIN} r = {SWAP} (result) }},
        else_branch = two () => (float[2, 4, 4, 8] t) {{ queries = Tanh (xq)  {PLAIN} t = {SWAP} (result) }}>""",
    "attention as one operator": f"queries = Relu (xq)  result = Attention (queries, xk, xv)  y = {SWAP} (result)",
}
READ = {
    "both": f"a = Relu (xq)  queries = {SWAP} (a)  {PLAIN} y = {SWAP} (result)",
    "both, reshaped to what it is": f"a = Relu (xq)  queries = {SWAP} (a)  {PLAIN}"
    f"z = Reshape (result, sizes)  y = {SWAP} (z)",
    "one head a batch": "a = Relu (xq)  queries = Reshape (a, flat)  b = Reshape (xk, flat)"
    "  values = Reshape (xv, flat)"
    "  columns = Transpose <perm = [0, 2, 1]> (b)  scores = MatMul (queries, columns)"
    "  weights = Softmax <axis = -1> (scores)  c = MatMul (weights, values)  result = Reshape (c, sizes)"
    f"  y = {SWAP} (result)",
    "behind arithmetic": f"queries = Relu (xq)  {PLAIN} z = Tanh (result)  y = {SWAP} (z)",
}


def right(body: str, path: object, heads: str = "4", positions: int = 4) -> tuple[bool, int]:
    """Compares with ONNX's reference; returns whether OpenVINO itself is right, too, and the number of choices."""
    shape = f"2, {heads}, {positions}, 8"
    added = [1] if "Reshape (xq" in body else []
    queries = ", ".join([*map(str, added), shape])
    proto = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 23]>
        g (float[{queries}] xq, float[{shape}] xk, float[{shape}] xv) => (float[?, ?, ?, ?] y)
        <int64[4] sizes = {{2, 4, 4, 8}}, int64[4] square = {{2, 4, 4, 4}}, int64[3] rows = {{8, 4, 4}},
        int64[3] flat = {{8, 4, 8}}, float half = {{0.5}}> {{ {body} }}""")
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal((2, 4, positions, 8)).astype(np.float32) for n in ("xq", "xk", "xv")}
    feeds["xq"] = feeds["xq"].reshape(*added, *feeds["xq"].shape)
    (expected,) = ReferenceEvaluator(proto).run(["y"], feeds)
    topology = edgekit_openvino.convert(proto, path)
    for _ in range(2):
        np.testing.assert_allclose(edgekit_openvino.load(topology).run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
    network = openvino.Core().read_model(proto.SerializeToString())
    compiled = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    (plain,) = compiled(list(feeds.values())).values()
    written = openvino.Core().read_model(topology)
    return np.allclose(plain, expected, atol=1e-3), sum(each.get_type_name() == "Select" for each in written.get_ops())


@pytest.mark.parametrize("name", MISREAD)
def test_queries_are_read_before_they_are_overwritten(name: str, tmp_path) -> None:
    is_right, _ = right(MISREAD[name], tmp_path / "model")
    assert not is_right, "OpenVINO has learned it"


@pytest.mark.parametrize("name", READ)
def test_other_orders_are_right_too(name: str, tmp_path) -> None:
    assert right(READ[name], tmp_path / "model")[0]


@pytest.mark.parametrize(("heads", "positions"), [("4", 5), ("n", 4)])
def test_kernels_stay_whole_where_nothing_is_overwritten(heads: str, positions: int, tmp_path) -> None:
    assert right(MISREAD["result"], tmp_path / "model", heads, positions) == (True, 0)
