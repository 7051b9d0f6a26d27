from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.words.integer_texts import with_integers_looked_up
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]
X = np.array([[0, 1, 2], [-3, 3, 2**40]], np.int64)


def model(lookup: str, attributes: dict, source: str = "INT64", ml_version: int = 1) -> onnx.ModelProto:
    kinds = {"INT64": onnx.TensorProto.INT64, "FLOAT": onnx.TensorProto.FLOAT}
    texts = onnx.helper.make_node("Cast", ["x"], ["t"], to=onnx.TensorProto.STRING)
    node = onnx.helper.make_node(lookup, ["t"], ["y"], domain="ai.onnx.ml", name="lookup", **attributes)
    is_float = any(name.endswith("_floats") for name in attributes)
    graph = onnx.helper.make_graph(
        [texts, node],
        "g",
        [onnx.helper.make_tensor_value_info("x", kinds[source], [2, 3])],
        [onnx.helper.make_tensor_value_info("y", kinds["FLOAT" if is_float else "INT64"], [2, 3])],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", ml_version)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def run(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("lookup", "attributes", "version"),
    [
        ("LabelEncoder", {"classes_strings": ["2", "-3", "0", "03", "many"]}, 1),
        ("LabelEncoder", {"classes_strings": ["2"], "default_int64": 7}, 1),
        ("LabelEncoder", {"keys_strings": ["3", "2"], "values_floats": [0.1, 0.2], "default_float": 0.3}, 2),
        ("CategoryMapper", {"cats_strings": ["1", "a"], "cats_int64s": [5, 6], "default_int64": -5}, 1),
    ],
)
def test_integers_are_looked_up_without_texts(lookup: str, attributes: dict, version: int) -> None:
    proto = model(lookup, attributes, ml_version=version)

    changed = with_integers_looked_up(Model(ir.from_proto(proto))).proto()

    assert lookup not in {node.op_type for node in changed.graph.node}
    found = run(changed, X)
    np.testing.assert_array_equal(found, run(proto, X))
    assert len(np.unique(found)) > 1


def ngrams(pool: list[str], *, length: int = 1, **tokenizer: object) -> onnx.ModelProto:
    """Columns of tokens, as AutoML makes them of integers."""
    make, opset = onnx.helper.make_node, onnx.helper.make_opsetid
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": ["_A0_"], **tokenizer}
    counts = {"ngram_counts": [0], "ngram_indexes": [*range(len(pool))], "mode": "TF", "max_skip_count": 0}
    nodes = [
        make("Cast", ["x"], ["t"], to=onnx.TensorProto.STRING),
        make("Tokenizer", ["t"], ["k"], domain="com.microsoft", **{a: v for a, v in given.items() if v is not None}),
        make("Flatten", ["k"], ["f"]),
        make("TfIdfVectorizer", ["f"], ["y"], pool_strings=pool, min_gram_length=1, max_gram_length=length, **counts),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3, 1])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, len(pool)])],
    )
    return onnx.helper.make_model(graph, opset_imports=[opset("", 17), opset("com.microsoft", 1)], ir_version=8)


def test_columns_of_integers_are_made_without_texts() -> None:
    proto = ngrams(["3", "-12", "0"])

    changed = with_integers_looked_up(Model(ir.from_proto(proto))).proto()

    assert [node.op_type for node in changed.graph.node if node.op_type in ("Tokenizer", "TfIdfVectorizer")] == [
        "Tokenizer",  # read by nothing any more
        "TfIdfVectorizer",
    ]
    (vectorizer,) = (node for node in changed.graph.node if node.op_type == "TfIdfVectorizer")
    assert "pool_int64s" in {attribute.name for attribute in vectorizer.attribute}
    x = np.array([[-12], [3], [7]])
    np.testing.assert_array_equal(run(changed, x), run(proto, x))
    np.testing.assert_array_equal(run(changed, x), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "proto",
    [
        ngrams(["3", "x"]),
        ngrams(["3", "5"], length=2),
        ngrams(["3", "5"], separators=["-"]),
        ngrams(["3", "5"], separators=None, tokenexp="[0-9]"),
        ngrams(["3", "5"], mincharnum=2),
        ngrams(["3", "5"], mark=1),
    ],
)
def test_columns_of_other_texts_stay(proto: onnx.ModelProto) -> None:
    (vectorizer,) = (
        n for n in with_integers_looked_up(Model(ir.from_proto(proto))).graph if n.op_type == "TfIdfVectorizer"
    )
    assert "pool_strings" in vectorizer.attributes


@pytest.mark.parametrize(
    ("attributes", "source"),
    [
        ({"classes_strings": ["a", "03", "1.0"]}, "INT64"),  # none of which an integer is written as
        ({"classes_strings": ["0", "1"]}, "FLOAT"),  # how runtimes write floats is their own
    ],
)
def test_other_texts_stay(attributes: dict, source: str) -> None:
    given = Model(ir.from_proto(model("LabelEncoder", attributes, source)))
    assert "LabelEncoder" in {node.op_type for node in with_integers_looked_up(given).graph}


def test_a_model_without_such_texts_is_itself(onnx_model: OnnxModel) -> None:
    given = Model(ir.from_proto(onnx_model("g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }")))
    assert with_integers_looked_up(given) is given
