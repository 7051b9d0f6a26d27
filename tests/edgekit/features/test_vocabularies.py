from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import InputError
from edgekit.features.vocabularies import as_numbers, listed, numbers_of

WORDS = ("b", "a", "\N{SNOWMAN}", "")


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (np.array([["a", "b"], ["", "c"]]), [[1, 0], [3, 4]]),
        (np.array(["\N{SNOWMAN}", b"a", "\N{SNOWMAN}".encode()], object), [2, 1, 2]),
        (np.array("b"), 0),
        (["A"], [4]),
        (np.empty((0, 2), object), np.empty((0, 2))),
    ],
    ids=["texts", "bytes", "one", "a list", "none"],
)
def test_the_number_of_each_text(texts: object, numbers: object) -> None:
    found = numbers_of(texts, WORDS)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, numbers)


def test_numbers_are_taken_as_they_are_but_for_those_of_no_word() -> None:
    given = np.array([0, 4], np.int64)
    assert as_numbers(given, WORDS, "input 'x'") is given
    for stray in (-1, 5):
        with pytest.raises(InputError, match=f"found: {stray}"):
            as_numbers(np.array([0, stray]), WORDS, "input 'x'")


def test_where_no_word_is_looked_for_all_have_the_same_number() -> None:
    np.testing.assert_array_equal(numbers_of(["a", ""], ()), [0, 0])
    with pytest.raises(InputError, match="expected: 0 for any word\n"):
        as_numbers(np.array([1]), (), "input 'x'")


def test_a_long_list_is_cut() -> None:
    assert listed("abc") == "'a', 'b', 'c'"
    assert listed("abcdefg") == "'a', 'b', 'c', 'd', 'e' …"
