"""Which outputs a graph says to hold classes, and along which axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.model import Model

TAGS = Decision(are_scores=True, independent=True, named=True)
MAPS = Decision(axis=1, are_scores=True, independent=True, is_map=True)

OnnxModel = Callable[..., onnx.ModelProto]


WEIGHTS = {
    "w": np.ones((8, 10), np.float32),
    "k": np.ones((4, 3, 1, 1), np.float32),
    "k1": np.ones((6, 3, 1, 1), np.float32),
    "one": np.ones((1, 3, 1, 1), np.float32),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
    "five": np.array([1, 5, 2]),
    "rows": np.array([1, 6, 16]),
    "flat": np.array([1, 4, 16]),
    "column": np.ones((8, 1), np.float32),
    "square": np.ones((8, 8), np.float32),
    "pair": np.ones((8, 2), np.float32),
    "halves": np.array([1, 1]),
    "last": np.array([-1]),
}


def told(onnx_model: OnnxModel, body: str, outputs: str, inputs: str = "float[1, 3, 4, 4] x") -> Decision | str | None:
    graph = f"g ({inputs}) => ({outputs}) {{ {body} }}"
    used = {name: each for name, each in WEIGHTS.items() if f"{name})" in graph or f"{name}," in graph}
    return decisions_of(Model(ir.from_proto(onnx_model(graph, **used)))).get("y", "unknown")


def test_a_softmax_that_is_written_out_tells_it_too(onnx_model: OnnxModel) -> None:
    logits = "h = MatMul (x, w) m = ReduceMax <axes = [1], keepdims = 0> (h) r = Unsqueeze (m, axis) z = Sub (h, r)"
    total = "e = Exp (z) s = ReduceSum <keepdims = 0> (e, axis) t = Unsqueeze (s, axis)"
    for body in (
        f"{total} y = Div (e, t)",
        f"{total} p = Div (e, t) y = Identity (p)",
        f"{total} l = Log (t) y = Sub (z, l)",
    ):
        graph = f"g (float[1, 8] x) => (float[1, 10] y) {{ {logits} {body} }}"
        read = ir.from_proto(onnx_model(graph, w=WEIGHTS["w"], axis=np.array([1])))
        assert decisions_of(Model(read))["y"] == Decision(axis=1, is_known=True, are_scores=True), body


def test_a_softmax_tells_the_axis(onnx_model: OnnxModel) -> None:
    conv = "h = Conv (x, k)"
    for body, outputs, axis in (
        (f"{conv} y = Softmax <axis = 1> (h)", "float[1, 4, 4, 4] y", 1),
        (f"{conv} t = Transpose <perm = [0, 2, 3, 1]> (h) y = Softmax (t)", "float[1, 4, 4, 4] y", 3),
        (f"{conv} p = Softmax <axis = 1> (h) y = Transpose <perm = [0, 2, 3, 1]> (p)", "float[1, 4, 4, 4] y", 3),
    ):
        assert told(onnx_model, body, outputs) == Decision(axis=axis, is_known=True, are_scores=True), body


def test_a_reshape_keeps_the_axis_whose_size_is_unique(onnx_model: OnnxModel) -> None:
    body = "h = Conv (x, k1) p = Softmax <axis = 1> (h) y = Reshape (p, rows)"
    assert told(onnx_model, body, "float[1, 6, 16] y") == Decision(axis=1, is_known=True, are_scores=True)
    unclear = "h = Conv (x, k) p = Softmax <axis = 1> (h) y = Reshape (p, flat)"
    assert told(onnx_model, unclear, "float[1, 4, 16] y") == Decision(are_scores=True)


def test_an_argmax_tells_numbers_of_classes(onnx_model: OnnxModel) -> None:
    body = "h = Conv (x, k) a = ArgMax <axis = 1, keepdims = 0> (h) y = Cast <to = 2> (a)"
    assert told(onnx_model, body, "uint8[1, 4, 4] y") == Decision(DecidedBy.NUMBER, is_known=True)


@pytest.mark.parametrize(
    ("body", "outputs", "inputs", "decides"),
    [
        ("y = MatMul (x, w)", "float[1, 6, 10] y", "float[1, 6, 8] x", True),  # logits of tokens
        ("y = MatMul (x, w)", "float[1, 10] y", "float[1, 8] x", True),
        (
            "c = Constant <value = float {2}> () m = MatMul (x, w) y = Mul (c, m)",
            "float[1, 6, 10] y",
            "float[1, 6, 8] x",
            True,
        ),
        ("h = MatMul (x, w) y = Reshape (h, five)", "float[1, 5, 2] y", "float[1, 8] x", False),  # key points
        ("h = Conv (x, k1) y = Reshape (h, rows)", "float[1, 6, 16] y", "float[1, 3, 4, 4] x", False),
    ],
)
def test_rows_decide_where_each_is_a_product(
    onnx_model: OnnxModel, body: str, outputs: str, inputs: str, decides: bool
) -> None:
    assert (told(onnx_model, body, outputs, inputs) == "unknown") == decides


def test_a_product_with_one_column_is_one_number_a_position(onnx_model: OnnxModel) -> None:
    words = "h = MatMul (x, column) y = Squeeze (h, last)"
    assert told(onnx_model, words, "float[1, N] y", "float[1, N, 8] x") == Decision(one_each=True)
    answer = "h = MatMul (x, pair) b, e = Split <axis = 2> (h, halves) y = Squeeze (b, last)"
    assert told(onnx_model, answer, "float[1, N] y", "float[1, N, 8] x") == "unknown"  # where an answer begins


def test_features_that_another_output_is_made_of_decide_nothing(onnx_model: OnnxModel) -> None:
    features = "y = MatMul (x, square) s = MatMul (y, w)"
    assert told(onnx_model, features, "float[1, 8] y, float[1, 10] s", "float[1, 8] x") is None
    scores = "y = MatMul (x, w) s = Softmax (y)"
    assert told(onnx_model, scores, "float[1, 10] y, float[1, 10] s", "float[1, 8] x") == "unknown"


@pytest.mark.parametrize(
    ("body", "outputs", "inputs", "is_signal"),
    [
        ("y = Neg (x)", "float[1, 1, 256] y", "float[1, 1, 256] x", True),
        ("y = Neg (x)", "float[N, 1, T] y", "float[N, 1, T] x", True),
        ("y = Neg (h)", "float[1, 8] y", "float[1, 3] x, float[1, 8] h", True),  # a state
        ("y = Softmax (x)", "float[1, 10] y", "float[1, 10] x", False),
        ("h = Cast <to = 1> (x) y = Neg (h)", "float[1, 16] y", "int64[1, 16] x", False),  # tokens: where a span begins
        ("h = MatMul (x, w) y = Neg (h)", "float[1, 10] y", "float[1, 8] x", False),
    ],
)
def test_what_has_the_shape_of_an_input_is_a_signal(
    onnx_model: OnnxModel, body: str, outputs: str, inputs: str, is_signal: bool
) -> None:
    assert (told(onnx_model, body, outputs, inputs) is None) == is_signal


def test_a_sigmoid_tells_probabilities_of_their_own(onnx_model: OnnxModel) -> None:
    graph = "g (float[1, 8] x) => (float[1, 10] y) { h = MatMul (x, w) y = Sigmoid (h) }"
    read = ir.from_proto(onnx_model(graph, w=WEIGHTS["w"]))
    assert decisions_of(Model(read))["y"] == replace(TAGS, named=False)
    assert decisions_of(Model(read, class_names=tuple("abcdefghij")))["y"] == TAGS


@pytest.mark.parametrize(
    ("body", "outputs", "decision"),
    [
        ("h = Conv (x, k) y = Sigmoid (h)", "float[1, 4, 4, 4] y", MAPS),
        ("h = Conv (x, one) y = Sigmoid (h)", "float[1, 1, 4, 4] y", MAPS),
        (
            "h = Conv (x, k1) t = Transpose <perm = [0, 2, 3, 1]> (h) y = Sigmoid (t)",
            "float[1, 4, 4, 6] y",
            replace(MAPS, axis=-1),
        ),
        (
            'h = Conv (x, k1) p = Sigmoid (h) y = Resize <mode = "nearest"> (p, none, twice)',
            "float[1, 6, 8, 8] y",
            MAPS,
        ),
        (
            'h = Conv (x, k1) r = Resize <mode = "nearest"> (h, none, twice) y = Sigmoid (r)',
            "float[1, 6, 8, 8] y",
            MAPS,
        ),
    ],
)
def test_a_sigmoid_behind_a_convolution_tells_maps(
    onnx_model: OnnxModel, body: str, outputs: str, decision: Decision
) -> None:
    assert told(onnx_model, body, outputs) == decision


@pytest.mark.parametrize(
    ("body", "outputs", "decision"),
    [
        ("y = Conv (x, k1)", "float[1, 6, 4, 4] y", Decision(axis=1, is_known=True, are_scores=True)),
        (
            "h = Conv (x, k1) y = Transpose <perm = [0, 2, 3, 1]> (h)",
            "float[1, 4, 4, 6] y",
            Decision(is_known=True, are_scores=True),
        ),
        ("h = Conv (x, k1) y = Sigmoid (h)", "float[1, 6, 4, 4] y", replace(MAPS, named=True)),
    ],
)
def test_names_tell_the_classes_of_channels(onnx_model: OnnxModel, body: str, outputs: str, decision: Decision) -> None:
    graph = f"g (float[1, 3, 4, 4] x) => ({outputs}) {{ {body} }}"
    read = ir.from_proto(onnx_model(graph, k1=WEIGHTS["k1"]))
    assert decisions_of(Model(read, class_names=tuple("abcdef")))["y"] == decision
