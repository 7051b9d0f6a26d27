import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino


def _attention(shape: str, before: str, transposed: str, after: str, constants: str) -> onnx.ModelProto:
    """Attention whose operands are reshaped by ``before``, and whose result is reshaped by ``after``."""
    return onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 18]>
        g (float[{shape}] x) => (float[{shape}] y)
        <{constants}> {{
            a = Relu(x)
            q = {before.format("a")}
            b = Sin(x)
            k = {before.format("b")}
            c = Cos(x)
            v = {before.format("c")}
            columns = Transpose<perm = [{transposed}]>(k)
            scores = MatMul(q, columns)
            weights = Softmax<axis = -1>(scores)
            r = MatMul(weights, v)
            s = {after}
            y = Tanh(s)
        }}""")


CASES = {
    "last axis squeezed": ("5, 9, 1", "Squeeze({}, n)", "1, 0", "Unsqueeze(r, n)", "int64[1] n = {2}"),
    "inner axis squeezed": ("5, 1, 9", "Squeeze({}, n)", "1, 0", "Unsqueeze(r, n)", "int64[1] n = {1}"),
    "one head": (
        "2, 9, 1, 4",
        "Transpose<perm = [0, 2, 1, 3]>({})",
        "0, 1, 3, 2",
        "Transpose<perm = [0, 2, 1, 3]>(r)",
        "int64 unused = {0}",
    ),
    "one sequence, positions first": (
        "9, 1, 4",
        "Transpose<perm = [1, 0, 2]>({})",
        "0, 2, 1",
        "Transpose<perm = [1, 0, 2]>(r)",
        "int64 unused = {0}",
    ),
    "channels": (
        "2, 4, 3, 3",
        "Reshape({}, flat)",
        "0, 2, 1",
        "Reshape(r, whole)",
        "int64[3] flat = {2, 4, 9}, int64[4] whole = {2, 4, 3, 3}",
    ),
    "windows": (
        "2, 6, 4",
        "Reshape({}, parts)",
        "0, 1, 3, 2",
        "Reshape(r, whole)",
        "int64[4] parts = {2, 3, 2, 4}, int64[3] whole = {2, 6, 4}",
    ),
    "batches": (
        "2, 3, 6, 4",
        "Reshape({}, parts)",
        "0, 2, 1",
        "Reshape(r, whole)",
        "int64[3] parts = {6, 6, 4}, int64[4] whole = {2, 3, 6, 4}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_between_reshapes_keeps_its_axes(case: str, tmp_path: Path) -> None:
    model = _attention(*CASES[case])
    onnx.checker.check_model(model)
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)[0]

    found = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]

    np.testing.assert_allclose(found, expected, atol=1e-5)


IDLE = [
    "idle = Identity(it)",
    "idle = Dropout(it)",
    "one = Constant<value_float = 1.0>() idle = Mul(one, it)",
    "none = Constant<value_float = 0.0>() idle = Add(it, none)",
    "idle = Cast<to = 1>(it)",
    "idle = Concat<axis = 1>(it)",
    "n = Constant<value_ints = [0]>() up = Unsqueeze(it, n) idle = Squeeze(up, n)",
]
TURNED_TWICE = "t = Transpose<perm = [0, 2, 1]>(it) idle = Transpose<perm = [0, 2, 1]>(t)"


@pytest.mark.parametrize(
    ("place", "idle"), [*itertools.product(["weights", "v", "r"], IDLE), ("weights", TURNED_TWICE)]
)
def test_attention_with_idle_nodes_inside_keeps_its_axes(place: str, idle: str, tmp_path: Path) -> None:
    model = _attention(*CASES["channels"])
    (reader,) = (node for node in model.graph.node if place in node.input)
    reader.input[list(reader.input).index(place)] = "idle"
    for node in onnx.parser.parse_graph(f"g () => () {{ it = Identity({place}) {idle} }}").node:
        model.graph.node.insert(list(model.graph.node).index(reader), node)
    onnx.checker.check_model(model)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 4, 3, 3)).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)[0]

    found = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]

    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_attention_that_stays_on_its_axes_gets_no_barrier(tmp_path: Path) -> None:
    edgekit_openvino.convert(_attention(*CASES["batches"]), tmp_path / "model")

    topology = (tmp_path / "model.xml").read_text()
    assert "ScaledDotProductAttention" in topology
    assert "IsNaN" not in topology


def test_attention_between_reshapes_of_open_sizes_keeps_its_axes(tmp_path: Path) -> None:
    rows = _attention(
        "1, height, width, 4",
        "Reshape({}, flat)",
        "0, 2, 1",
        "Reshape(r, whole)",
        "int64[3] flat = {1, -1, 4}, int64[4] whole = {1, -1, 3, 4}",
    )
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 5, 3, 4)).astype(np.float32)}
    expected = ReferenceEvaluator(rows).run(None, feeds)[0]

    found = edgekit_openvino.load(edgekit_openvino.convert(rows, tmp_path / "model")).run(feeds)["y"]

    np.testing.assert_allclose(found, expected, atol=1e-5)
