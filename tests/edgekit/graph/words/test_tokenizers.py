from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.features.tokens import TokenRule, numbers_for
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.inputs import with_word_inputs, words_of_texts
from edgekit.model import Model

LOWER = {"case_change_action": "LOWER", "locale": "C", "is_case_sensitive": 0}
WORDS = ["bad", "good", "very", "so"]


def tokenizer(source: str, made: str, **attributes: Any) -> onnx.NodeProto:
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-z]+", **attributes}
    if "separators" in attributes:
        del given["tokenexp"]
    return helper.make_node("Tokenizer", [source], [made], name=made, domain="com.microsoft", **given)


def counter(source: str, made: str, pool: Sequence[str], singles: int) -> onnx.NodeProto:
    """Counts words, and pairs of words behind the first ``singles`` ones of the pool."""
    grams = singles + (len(pool) - singles) // 2
    return helper.make_node(
        "TfIdfVectorizer",
        [source],
        [made],
        name=made,
        mode="TF",
        min_gram_length=1,
        max_gram_length=2 if grams > singles else 1,
        max_skip_count=0,
        ngram_counts=[0, singles] if grams > singles else [0],
        ngram_indexes=list(range(grams)),
        pool_strings=list(pool),
    )


def model_of(
    nodes: list[onnx.NodeProto], shape: list[Any], *, outputs: Sequence[str] = ("y",), **constants: Any
) -> Model:
    graph = helper.make_graph(
        nodes,
        "words",
        [helper.make_tensor_value_info("text", TensorProto.STRING, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    opsets = [
        helper.make_opsetid("", 19),
        helper.make_opsetid("ai.onnx.ml", 3),
        helper.make_opsetid("com.microsoft", 1),
    ]
    return infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=9))))


def run(model: Model, array: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"text": array})


def holds(model: Model, texts: list[Any]) -> Model:
    """Asserts that ONNX Runtime computes the same from words as from texts; returns the changed model."""
    found = with_word_inputs(model)
    assert not found.obstacles
    array = np.array(texts, object)
    numbers = numbers_for(array, found.vocabularies["text"], found.tokens["text"], "input 'text'")
    (spec,) = found.model.inputs
    assert (spec.dtype, spec.takes_shape(numbers.shape)) == ("int64", True)
    assert (spec.vocabulary, spec.tokens) == (found.vocabularies["text"], found.tokens["text"])
    for expected, got in zip(run(model, array), run(found.model, numbers), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert not any(value.dtype == ir.DataType.STRING for value in found.model.graph.initializers.values())
    assert [spec.dtype for spec in model.inputs] == ["str"]
    return found.model


TEXTS = ["Very very GOOD, so good!", "", "B\N{LATIN SMALL LETTER E WITH ACUTE}d so-so bad", "#", "none of them"]


def test_what_scikit_learn_is_exported_as() -> None:
    nodes = [
        helper.make_node("Reshape", ["text", "flat"], ["one"]),
        helper.make_node("StringNormalizer", ["one"], ["small"], **LOWER),
        tokenizer("small", "words"),
        helper.make_node("Flatten", ["words"], ["rows"]),
        counter("rows", "y", [*WORDS, "very", "good", "so", "so"], 4),
    ]
    changed = holds(model_of(nodes, [None], flat=[-1]), TEXTS)
    assert changed.tokens == {"text": (TokenRule(expression="[a-z]+", case="ascii-lower", count=64),)}
    assert [node.op_type for node in changed.graph] == ["Identity", "Flatten", "TfIdfVectorizer"]


@pytest.mark.parametrize("shape", [[None, 1], ["N", 1], [5, 1]])
def test_a_column_of_texts(shape: list[Any]) -> None:
    nodes = [
        helper.make_node("Reshape", ["text", "flat"], ["one"]),
        helper.make_node("StringNormalizer", ["one"], ["large"], **{**LOWER, "case_change_action": "UPPER"}),
        tokenizer("large", "words", tokenexp="[A-Z]+"),
        counter("words", "y", ["GOOD", "VERY"], 2),
    ]
    changed = holds(model_of(nodes, shape, flat=[-1]), [[text] for text in TEXTS])
    assert changed.inputs[0].shape == (*shape, 64)


@pytest.mark.parametrize(
    "attributes", [{"tokenexp": "."}, {"separators": [" ", "-"], "mincharnum": 2}, {"separators": [""], "mark": 1}]
)
def test_other_rules_and_no_movers(attributes: dict[str, Any]) -> None:
    nodes = [
        tokenizer("text", "words", **attributes),
        helper.make_node("Flatten", ["words"], ["rows"]),
        counter("rows", "y", [" ", "so", "#", "\x02", "\x03", "g", "o", "o", "d", "\x03"], 6),
    ]
    texts = [[text] for text in TEXTS if text]
    for text in texts:  # one at a time: the original counts what it fills shorter texts with
        holds(model_of(nodes, ["N", 1]), [text])


@pytest.mark.parametrize(
    ("attributes", "case"),
    [
        ({}, "lower"),
        ({"locale": "en_GB.utf8"}, "lower"),
        ({"locale": "C.UTF-8"}, "lower"),
        ({"locale": "C"}, "ascii-lower"),
    ],
)
def test_the_locale_tells_which_letters_change(attributes: dict[str, str], case: str) -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["text"], ["small"], case_change_action="LOWER", **attributes),
        tokenizer("small", "words"),
        counter("words", "y", WORDS, 4),
    ]
    ((rule,),) = words_of_texts(model_of(nodes, ["N"])).values()
    assert rule.case == case


def test_a_column_that_is_picked_of_one() -> None:
    nodes = [
        helper.make_node("ArrayFeatureExtractor", ["text", "first"], ["column"], domain="ai.onnx.ml"),
        helper.make_node("Reshape", ["column", "flat"], ["one"]),
        tokenizer("one", "words"),
        counter("words", "y", WORDS, 4),
    ]
    holds(model_of(nodes, [None, 1], flat=[-1], first=[0]), [[text] for text in TEXTS])


def test_two_rules_stand_one_after_another_and_the_same_rule_counts_once() -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["text"], ["small"], **LOWER),
        tokenizer("small", "words"),
        tokenizer("small", "again"),
        tokenizer("text", "letters", tokenexp="."),
        counter("words", "y", WORDS, 4),
        counter("again", "z", ["so", "so"], 0),
        counter("letters", "w", ["g", "o", "o", "o"], 2),
    ]
    changed = holds(model_of(nodes, ["N"], outputs=["y", "z", "w"]), TEXTS)
    assert [rule.expression for rule in changed.tokens["text"]] == ["[a-z]+", ""]
    assert changed.inputs[0].shape == ("N", 128)
    model = model_of(nodes, ["N"], outputs=["y", "z", "w"])
    assert words_of_texts(model) == changed.tokens
    found = with_word_inputs(model, {"text": [16, 32]})
    assert found.model.inputs[0].shape == ("N", 48)


def test_words_that_a_branch_makes_stay_there() -> None:
    text = """<ir_version: 9, opset_import: ["" : 19, "com.microsoft" : 1]> g (string[2] text, bool b) => (int64[N] y) {
        y = If (b) <then_branch = t () => (int64[M] p) {
            w = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#", tokenexp = "a"> (text)
            p = Shape (w) },
        else_branch = e () => (int64[L] q) { q = Shape (text) }>
    }"""
    model = infer_shapes(Model(ir.from_proto(onnx.parser.parse_model(text))))
    assert with_word_inputs(model).obstacles == {"text": "node 'y' (If) reads texts in a loop or branch"}


def test_counts_that_are_given_for_no_input_leave_texts_whole() -> None:
    nodes = [tokenizer("text", "words"), counter("words", "y", WORDS, 4)]
    found = with_word_inputs(model_of(nodes, ["N"]), {})
    assert not found.vocabularies
    assert "'words' (com.microsoft.Tokenizer) uses texts for something other" in found.obstacles["text"]


@pytest.mark.parametrize(
    ("nodes", "obstacle"),
    [
        (
            [tokenizer("text", "words", tokenexp="a|b"), counter("words", "y", WORDS, 4)],
            "node 'words' (com.microsoft.Tokenizer): expression 'a|b' has alternatives, groups or anchors, which may "
            "match otherwise elsewhere",
        ),
        (
            [
                helper.make_node(
                    "StringNormalizer",
                    ["text"],
                    ["small"],
                    name="lower",
                    case_change_action="LOWER",
                    locale="tr_TR.UTF-8",
                ),
                tokenizer("small", "words"),
                counter("words", "y", WORDS, 4),
            ],
            "node 'lower' (StringNormalizer) changes letters beyond ASCII as locale 'tr_TR.UTF-8' does",
        ),
        (
            [
                helper.make_node("StringNormalizer", ["text"], ["small"], **LOWER),
                helper.make_node(
                    "StringNormalizer", ["small"], ["large"], name="upper", case_change_action="UPPER", locale="C"
                ),
                tokenizer("large", "words"),
                counter("words", "y", WORDS, 4),
            ],
            "node 'upper' (StringNormalizer) changes the case again",
        ),
        (
            [
                helper.make_node("StringNormalizer", ["text"], ["some"], name="some", stopwords=["a"], locale="C"),
                tokenizer("some", "words"),
                counter("words", "y", WORDS, 4),
            ],
            "node 'some' (StringNormalizer) uses texts for something other than looking them up in a list",
        ),
        (
            [
                tokenizer("text", "words"),
                helper.make_node(
                    "LabelEncoder", ["words"], ["y"], domain="ai.onnx.ml", keys_strings=["a"], values_int64s=[1]
                ),
            ],
            "node 'words' (com.microsoft.Tokenizer) uses texts for something other than looking them up in a list",
        ),
        (
            [
                tokenizer("text", "words"),
                helper.make_node("Reshape", ["words", "flat"], ["together"]),
                counter("together", "y", WORDS, 4),
            ],
            "node 'words' (com.microsoft.Tokenizer) uses texts for something other than looking them up in a list",
        ),
        (
            [
                tokenizer("text", "words"),
                counter("words", "counts", WORDS, 4),
                helper.make_node("Shape", ["words"], ["y"]),
            ],
            "node 'words' (com.microsoft.Tokenizer) uses texts for something other than looking them up in a list",
        ),
        (
            [
                tokenizer("text", "words"),
                counter("words", "counts", WORDS, 4),
                helper.make_node("Identity", ["text"], ["y"]),
            ],
            "node 'words' (com.microsoft.Tokenizer) uses texts for something other than looking them up in a list",
        ),
    ],
    ids=[
        "expression",
        "locale",
        "two cases",
        "stop words",
        "each word",
        "several texts",
        "size of the words",
        "texts returned",
    ],
)
def test_texts_stay(nodes: list[onnx.NodeProto], obstacle: str) -> None:
    model = model_of(nodes, ["N"], flat=[-1])
    found = with_word_inputs(model)
    assert found.obstacles == {"text": obstacle}
    assert found.model is model
