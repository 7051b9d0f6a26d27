from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.errors import InputError
from edgekit.features.tokens import TokenRule, enough_for, flaw_of, numbers_for, shape_of_numbers

EVERY_CHARACTER = "".join(chr(code) for code in range(1, 0x3100))
"""Spaces, letters and marks of many scripts, each once."""
ODD = (
    "Émile İs 'IN' \N{LATIN SMALL LETTER LONG S}ome\vplace\tfar_away,"
    "\N{NO-BREAK SPACE}x-1 12:30\nand\N{KELVIN SIGN}elvin \N{GRINNING FACE}😀 A"
)


def _executed(node_type: str, text: str, domain: str, attributes: dict[str, Any]) -> list[str]:
    """What ONNX Runtime makes of one text."""
    node = helper.make_node(node_type, ["x"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [1])],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return [str(word) for word in session.run(None, {"x": np.array([text], object)})[0].ravel()]


def _words(text: str, **attributes: Any) -> list[str]:
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attributes}
    return _executed("Tokenizer", text, "com.microsoft", given)


@pytest.mark.parametrize("text", [EVERY_CHARACTER, ODD, "a", "", " ", "aab abab ab", "a,b;c, d", "word"])
@pytest.mark.parametrize(
    "expression",
    [
        r"[a-zA-Z0-9_]+",
        r"\b\w\w+\b",
        r"\w+",
        r"\W+",
        r"\S+",
        r"[^\s,;]+",
        r"[\w\-']+",
        r"\d{1,2}:\d\d",
        r".+",
        r"[^ ]+",
        r"a*ab?",
        r"[ab]?a?b",
        r"\D\d",
        "é",
        r"[\\s]+",
        r"\Bb",
    ],
)
def test_what_matches_an_expression(expression: str, text: str) -> None:
    assert flaw_of(expression) is None
    assert TokenRule(expression=expression).words(text) == _words(text, tokenexp=expression)


@pytest.mark.parametrize("text", [ODD, "", "one", "a,b;c, d", ",;", "  two  spaces "])
@pytest.mark.parametrize("separators", [[" "], [",", ";"], [r"\s"], ["[,; ]+"], [r"\b\w", " "], ["ab"]])
@pytest.mark.parametrize("least", [1, 2])
def test_what_stands_between_separators(separators: list[str], text: str, least: int) -> None:
    rule = TokenRule(separators=tuple(separators), least=least)
    assert rule.flaw is None
    assert rule.words(text) == _words(text, separators=separators, mincharnum=least)


@pytest.mark.parametrize("text", [ODD, "", "a", "no"])
@pytest.mark.parametrize("attributes", [{"tokenexp": "."}, {"separators": [""]}])
@pytest.mark.parametrize("marked", [False, True])
def test_characters(attributes: dict[str, Any], text: str, marked: bool) -> None:
    assert TokenRule(marked=marked).words(text) == _words(text, **attributes, mark=int(marked))


@pytest.mark.parametrize("text", [ODD, "", "a", "no"])
def test_words_that_are_too_short_and_ends_that_are_marked(text: str) -> None:
    rule = TokenRule(expression="[a-z]+", least=3, marked=True)
    assert rule.words(text) == _words(text, tokenexp="[a-z]+", mincharnum=3, mark=1)


@pytest.mark.parametrize(
    ("case", "change", "locale"),
    [
        ("ascii-lower", "LOWER", "C"),
        ("ascii-upper", "UPPER", "C"),
        ("", "NONE", "C"),
        ("lower", "LOWER", "C.UTF-8"),
        ("upper", "UPPER", "C.UTF-8"),
    ],
)
@pytest.mark.parametrize("text", [EVERY_CHARACTER, ODD, "plain ASCII"])
def test_cases(case: str, change: str, locale: str, text: str) -> None:
    attributes = {"case_change_action": change, "locale": locale, "is_case_sensitive": 0}
    try:
        (expected,) = _executed("StringNormalizer", text, "", attributes)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        pytest.skip(f"the system has no locale {locale}")
    assert "".join(TokenRule(case=case).words(text)) == expected


@pytest.mark.parametrize(
    ("expression", "flaw"),
    [
        *((each, "alternatives, groups or anchors") for each in ("a|ab", "(a)", "(?i)a", "^a", "a$", "a+?", "a*+")),
        *((each, "alternatives, groups or anchors") for each in (r"\1", r"\pL", "[[:alpha:]]", "[]a]", "a{,2}", "a{")),
        *((each, "matches the empty text") for each in ("", "a*", "a?b*", r"\b", "a{0,3}")),
        ("[z-a]", "is not an expression: bad character range"),
    ],
)
def test_expressions_that_may_match_otherwise(expression: str, flaw: str) -> None:
    assert flaw in str(flaw_of(expression))
    if expression:
        assert flaw in str(TokenRule(separators=(" ", expression)).flaw)


@pytest.mark.parametrize(
    "rule",
    [
        TokenRule(),
        TokenRule(expression="[a-z]+", case="ascii-lower", count=32),
        TokenRule(separators=(" ", ","), least=2, marked=True),
    ],
)
def test_a_record_and_back(rule: TokenRule) -> None:
    assert TokenRule.from_record(rule.as_record()) == rule


def test_the_record() -> None:
    assert TokenRule(expression="[a-z]+", case="ascii-lower", count=32).as_record() == {
        "expression": "[a-z]+",
        "case": "ascii-lower",
        "count": 32,
    }


def test_numbers_of_the_words_of_texts() -> None:
    rules = (TokenRule(expression="[a-z]+", case="ascii-lower", count=3), TokenRule(count=4))
    texts = np.array([["B a"], [b"no"], [""]], object)
    found = numbers_for(texts, ("a", "b", " "), rules, "input 'x'")
    assert found.dtype == np.int64
    assert found.tolist() == [[[1, 0, 3, 3, 2, 0, 3]], [[3] * 7], [[3] * 7]]
    assert found.shape == shape_of_numbers(texts.shape, rules) == (3, 1, 7)
    assert numbers_for(found, ("a", "b", " "), rules, "input 'x'") is found
    np.testing.assert_array_equal(numbers_for(np.array(["a", "c"]), ("a",), (), "input 'x'"), [0, 1])


def test_a_text_with_too_many_words() -> None:
    with pytest.raises(InputError) as error:
        numbers_for(np.array(["a", "b a b"]), ("a",), (TokenRule(expression="[a-z]", count=2),), "input 'x'")
    assert str(error.value) == (
        "input 'x': a text has more words than the input has places for\n"
        "expected: up to 2: what matches [a-z]\n"
        "found: 3 in 'b a b'\n"
        "hint: shorten it, or package again with a sample that has as many"
    )


@pytest.mark.parametrize(("longest", "count"), [(0, 16), (16, 16), (17, 32), (64, 64), (65, 128)])
def test_places_are_a_power_of_two(longest: int, count: int) -> None:
    assert enough_for(longest) == count
