from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgekit.execution.reference import NotRunnableError
from edgekit.execution.word_proof import difference_on_words
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.inputs import WordInputs, with_word_inputs
from edgekit.model import Model

ML = "ai.onnx.ml"


def _model(node: str = "LabelEncoder", words: int = 300, **attributes: object) -> Model:
    keys = [f"word {number}" for number in range(words)]
    given = {"keys_strings": keys, "values_int64s": list(range(words)), "default_int64": -5}
    graph = helper.make_graph(
        [helper.make_node(node, ["x"], ["y"], domain=ML, **(attributes or given))],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["N", 4])],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 3)]
    return infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))))


def _cut(pad: str = "#", case: str = "LOWER", expression: str = "[a-z#]+") -> Model:
    """Counts words and pairs of words of texts."""
    words = [f"word{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(200)]
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["small"], case_change_action=case, locale="C"),
        helper.make_node(
            "Tokenizer",
            ["small"],
            ["words"],
            domain="com.microsoft",
            mark=0,
            mincharnum=1,
            pad_value=pad,
            tokenexp=expression,
        ),
        helper.make_node(
            "TfIdfVectorizer",
            ["words"],
            ["y"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 201],
            ngram_indexes=list(range(301)),
            pool_strings=["#", *words, *words],
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["N"])],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    return infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))))


def _difference(before: Model, found: WordInputs, *samples: list[str]) -> str | None:
    feeds = [{"x": np.array(texts)} for texts in samples]
    return difference_on_words(before, found.model, found.looked_up, found.vocabularies, found.tokens, feeds)


@pytest.mark.parametrize("pad", ["#", "none"])
def test_nothing_differs_on_texts_that_are_cut_into_words(pad: str) -> None:
    model = _cut(pad)
    found = with_word_inputs(model)
    assert found.tokens
    assert _difference(model, found, ["Wordaa wordab WORDAC # word", ""], ["word\N{COMBINING ACUTE ACCENT}aa"]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"case": ""},
        {"case": "lower"},
        {"expression": "[a-z]+"},
        {"expression": r"\w+"},
        {"separators": (r"\s",)},
        {"least": 2},
    ],
    ids=["case", "case of other letters", "a mark", "more letters", "separators", "shortest"],
)
def test_a_rule_that_is_another_than_the_original_s_is_seen(wrong: dict[str, Any]) -> None:
    model = _cut()
    found = with_word_inputs(model)
    ((rule,),) = found.tokens.values()
    plain = {"expression": ""} if "separators" in wrong else {}
    other = replace(found, tokens={"x": (replace(rule, **plain, **wrong),)})
    assert "value y" in str(_difference(model, other))


def test_what_only_a_sample_has_is_seen() -> None:
    model = _cut()
    found = with_word_inputs(model)
    ((rule,),) = found.tokens.values()
    other = replace(found, tokens={"x": (replace(rule, expression="[a-z#\N{CYRILLIC SMALL LETTER A}]+"),)})
    assert _difference(model, other, ["wordaa wordab"]) is None
    difference = _difference(model, other, ["wordaa", "x"], ["wordaa\N{CYRILLIC SMALL LETTER A} wordab"])
    assert difference == "value y differs by 1, its largest value is 1, on a sample"


def test_nothing_differs() -> None:
    model = _model()
    assert _difference(model, with_word_inputs(model)) is None


@pytest.mark.parametrize("place", [0, 150, 299, 300], ids=["first", "one of many", "last", "any other word"])
def test_one_wrong_value_is_seen(place: int) -> None:
    model = _model(words=300)
    found = with_word_inputs(model)
    (table,) = found.model.graph.initializers.values()
    assert table.const_value is not None
    values = np.array(table.const_value.numpy())
    values[place] = 77
    table.const_value = ir.tensor(values, name=table.name)
    assert _difference(model, found) == "value y has other values"


def test_words_that_the_model_fails_at_tell_nothing() -> None:
    model = _model("OneHotEncoder", cats_strings=["a", "b"], zeros=0)
    assert _difference(model, with_word_inputs(model)) is None


def test_a_model_that_does_not_run_on_any_words_is_not_proven() -> None:
    model = _model("OneHotEncoder", cats_strings=["a"], zeros=1)
    for node in model.graph:
        node.attributes.add(ir.AttrInt64s("cats_int64s", [1]))  # both, which ONNX Runtime refuses
    with pytest.raises(NotRunnableError):
        _difference(model, WordInputs(model, {"x": ("a",)}, looked_up=("y",)))
