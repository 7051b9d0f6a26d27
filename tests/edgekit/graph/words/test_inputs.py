from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.features.vocabularies import numbers_of
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.inputs import with_word_inputs
from edgekit.model import Model

ML = "ai.onnx.ml"


def _model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    outputs: dict[str, tuple[int, int]],
    *,
    ml: int = 3,
    constants: dict[str, Any] | None = None,
) -> Model:
    """A model of text inputs by name and shape, and outputs by name, type and rank."""
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info(name, TensorProto.STRING, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, [None] * rank) for name, (kind, rank) in outputs.items()],
        [onnx.numpy_helper.from_array(np.array(value), name) for name, value in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid(ML, ml), helper.make_opsetid("com.microsoft", 1)]
    return infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=9))))


def _run(model: Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, feeds)]


def _holds(model: Model, **texts: list[Any]) -> Model:
    """Asserts that ONNX Runtime computes the same from numbers as from texts; returns the changed model."""
    found = with_word_inputs(model)
    assert not found.obstacles
    assert {spec.dtype for spec in found.model.inputs} == {"int64"}
    words = {name: np.array(rows, object) for name, rows in texts.items()}
    numbers = {name: numbers_of(rows, found.vocabularies[name]) for name, rows in words.items()}
    for expected, got in zip(_run(model, words), _run(found.model, numbers), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    assert not any(value.dtype == ir.DataType.STRING for value in found.model.graph.initializers.values())
    assert [spec.dtype for spec in model.inputs] == ["str"] * len(model.inputs)
    return found.model


@pytest.mark.parametrize(
    ("ml", "attributes", "kind"),
    [
        (1, {"classes_strings": ["a", "b", "a", "c"], "default_int64": -7}, TensorProto.INT64),
        (2, {"keys_strings": ["a", "b", "a"], "values_int64s": [5, 6, 7]}, TensorProto.INT64),
        (2, {"keys_strings": ["a", "b"], "values_floats": [0.5, 1.5], "default_float": 9.0}, TensorProto.FLOAT),
        (
            4,
            {
                "keys_tensor": helper.make_tensor(
                    "k", TensorProto.STRING, [2], [b"a", "\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode()]
                ),
                "values_tensor": helper.make_tensor("v", TensorProto.INT16, [2], [3, 4]),
                "default_tensor": helper.make_tensor("d", TensorProto.INT16, [1], [8]),
            },
            TensorProto.INT16,
        ),
    ],
    ids=["version 1, a word twice", "a key twice", "floats", "tensors"],
)
def test_a_label_encoder_is_a_table_by_number(ml: int, attributes: dict[str, Any], kind: int) -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)
    model = _model([node], {"x": ["N", 2]}, {"y": (kind, 2)}, ml=ml)
    changed = _holds(model, x=[["a", "b"], ["c", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"], ["", "other"]])
    assert [node.op_type for node in changed.graph] == ["Gather"]


def test_the_vocabulary_is_the_words_of_all_readers_in_the_order_of_the_graph() -> None:
    nodes = [
        helper.make_node("OneHotEncoder", ["x"], ["y"], domain=ML, cats_strings=["red", "blue"], zeros=1),
        helper.make_node("LabelEncoder", ["x"], ["z"], domain=ML, keys_strings=["green", "red"], values_int64s=[4, 9]),
    ]
    model = _model(nodes, {"x": ["N", 1]}, {"y": (TensorProto.FLOAT, 3), "z": (TensorProto.INT64, 2)})
    changed = _holds(model, x=[["red"], ["green"], ["blue"], ["yellow"]])
    assert changed.vocabularies == {"x": ("red", "blue", "green")}
    assert changed.inputs[0].vocabulary == ("red", "blue", "green")


def test_words_come_through_what_moves_them() -> None:
    nodes = [
        helper.make_node("Concat", ["x", "more"], ["wide"], axis=1),
        helper.make_node("Transpose", ["wide"], ["turned"], perm=[1, 0]),
        helper.make_node("Where", ["mask", "turned", "filling"], ["filled"]),
        helper.make_node("Equal", ["filled", "wanted"], ["y"]),
        helper.make_node("Shape", ["filled"], ["z"]),
    ]
    constants = {
        "more": np.array([["d"], ["e"]], object),
        "mask": np.array([[True], [True], [False]]),
        "filling": np.array("f", object),
        "wanted": np.array(["a", "f"], object),
    }
    model = _model(nodes, {"x": [2, 2]}, {"y": (TensorProto.BOOL, 2), "z": (TensorProto.INT64, 1)}, constants=constants)
    changed = _holds(model, x=[["a", "f"], ["d", "none"]])
    assert set(changed.vocabularies["x"]) == {"a", "d", "e", "f"}


def test_texts_that_a_lookup_gives_are_looked_up_again() -> None:
    nodes = [
        helper.make_node(
            "LabelEncoder", ["x"], ["kind"], domain=ML, keys_strings=["cat", "oak"], values_strings=["animal", "plant"]
        ),
        helper.make_node("OneHotEncoder", ["kind"], ["y"], domain=ML, cats_strings=["plant", "_Unused"], zeros=1),
    ]
    model = _model(nodes, {"x": ["N"]}, {"y": (TensorProto.FLOAT, 2)})
    _holds(model, x=["cat", "oak", "stone", "plant"])


def _tokenized(*separators: str) -> Model:
    """Columns of words, by a Tokenizer as Azure's AutoML puts it in front of a TfIdfVectorizer."""
    nodes = [
        helper.make_node(
            "Tokenizer",
            ["x"],
            ["tokens"],
            domain="com.microsoft",
            mark=0,
            mincharnum=1,
            pad_value="#",
            separators=list(separators),
        ),
        helper.make_node("Flatten", ["tokens"], ["flat"]),
        helper.make_node(
            "TfIdfVectorizer",
            ["flat"],
            ["y"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            ngram_counts=[0],
            ngram_indexes=[0, 1, 2],
            pool_strings=["May", "New Visitor", "Dec"],
        ),
    ]
    return _model(nodes, {"x": ["N", 1]}, {"y": (TensorProto.FLOAT, 2)})


def test_a_tokenizer_that_leaves_texts_whole() -> None:
    changed = _holds(_tokenized("_0123456789ABCDEF_"), x=[["May"], ["New Visitor"], ["June"], ["dec"], ["May Dec"]])
    assert [node.op_type for node in changed.graph] == ["Unsqueeze", "Flatten", "TfIdfVectorizer"]


def test_category_mapper_and_ngrams() -> None:
    nodes = [
        helper.make_node(
            "CategoryMapper", ["x"], ["y"], domain=ML, cats_strings=["a", "b"], cats_int64s=[3, 5], default_int64=7
        ),
        helper.make_node(
            "TfIdfVectorizer",
            ["x"],
            ["z"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 2],
            ngram_indexes=[0, 1, 2],
            pool_strings=["a", "c", "a", "b"],
        ),
    ]
    model = _model(nodes, {"x": [1, 5]}, {"y": (TensorProto.INT64, 2), "z": (TensorProto.FLOAT, 2)})
    _holds(model, x=[["a", "b", "a", "c", "z"]])


def test_columns_that_are_picked_apart_have_vocabularies_of_their_own() -> None:
    nodes = [
        helper.make_node("Concat", ["colour", "shape"], ["table"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["table", "first"], ["a"], domain=ML),
        helper.make_node("Gather", ["table", "second"], ["b"], axis=1),
        helper.make_node("OneHotEncoder", ["a"], ["y"], domain=ML, cats_strings=["red", "blue"], zeros=1),
        helper.make_node("OneHotEncoder", ["b"], ["z"], domain=ML, cats_strings=["round", "red"], zeros=1),
    ]
    model = _model(
        nodes,
        {"colour": ["N", 1], "shape": ["N", 1]},
        {"y": (TensorProto.FLOAT, 3), "z": (TensorProto.FLOAT, 3)},
        constants={"first": np.array([0]), "second": np.array([-1])},
    )
    changed = _holds(model, colour=[["red"], ["blue"], ["round"]], shape=[["round"], ["red"], ["blue"]])
    assert changed.vocabularies == {"colour": ("red", "blue"), "shape": ("round", "red")}


def test_what_failed_at_other_words_gives_zeros_and_is_named() -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], name="hot", domain=ML, cats_strings=["a", "b"], zeros=0)
    model = _model([node], {"x": ["N"]}, {"y": (TensorProto.FLOAT, 2)})
    with pytest.raises(Exception, match="Unknown Category"):
        _run(model, {"x": np.array(["other"], object)})
    changed = _holds(model, x=["a", "b"])
    (found,) = _run(changed, {"x": np.array([2, 1])})
    np.testing.assert_array_equal(found, [[0, 0], [0, 1]])
    assert with_word_inputs(model).failing == ("hot",)


def test_an_input_that_nothing_reads_takes_any_number() -> None:
    nodes = [helper.make_node("OneHotEncoder", ["x"], ["y"], domain=ML, cats_strings=["a"], zeros=1)]
    model = _model(nodes, {"x": ["N"], "unread": ["N"]}, {"y": (TensorProto.FLOAT, 2)})
    assert with_word_inputs(model).vocabularies == {"x": ("a",), "unread": ()}


@pytest.mark.parametrize(
    ("node", "kind", "obstacle"),
    [
        (
            helper.make_node("StringNormalizer", ["x"], ["y"], name="n", case_change_action="LOWER"),
            TensorProto.STRING,
            "node 'n' (StringNormalizer) uses texts for something other than looking them up in a list",
        ),
        (
            helper.make_node("Cast", ["x"], ["y"], name="n", to=TensorProto.FLOAT),
            TensorProto.FLOAT,
            "node 'n' (Cast) uses texts for something other than looking them up in a list",
        ),
        (
            helper.make_node("Equal", ["x", "x"], ["y"], name="n"),
            TensorProto.BOOL,
            "node 'n' (Equal) uses texts for something other than looking them up in a list",
        ),
        (helper.make_node("Identity", ["x"], ["y"]), TensorProto.STRING, "output 'y' returns its texts"),
    ],
    ids=["normalized", "parsed", "compared with each other", "returned"],
)
def test_texts_that_are_read_in_another_way_stay(node: onnx.NodeProto, kind: int, obstacle: str) -> None:
    model = _model([node], {"x": [2]}, {"y": (kind, 1)})
    found = with_word_inputs(model)
    assert found.obstacles == {"x": obstacle}
    assert found.model is model


def test_texts_of_a_branch_stay() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19]> g (string[2] x, bool b) => (bool[2] y) {
        y = If (b) <then_branch = t () => (bool[2] p) { w = Constant <value_string = "a"> () p = Equal(x, w) },
        else_branch = e () => (bool[2] q) { v = Constant <value_string = "b"> () q = Equal(x, v) }>
    }"""
    found = with_word_inputs(infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(text)))))
    assert list(found.obstacles.values()) == ["node 'y' (If) reads texts in a loop or branch"]


def test_one_input_stays_and_the_other_does_not() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("OneHotEncoder", ["w"], ["z"], domain=ML, cats_strings=["a"], zeros=1),
    ]
    model = _model(nodes, {"x": [2], "w": [2]}, {"y": (TensorProto.STRING, 1), "z": (TensorProto.FLOAT, 2)})
    found = with_word_inputs(model)
    assert {spec.name: spec.dtype for spec in found.model.inputs} == {"x": "str", "w": "int64"}
    assert list(found.obstacles) == ["x"]
