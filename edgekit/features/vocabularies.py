"""Vocabularies: words and the numbers that an input takes in place of texts that a model only looks up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgekit.errors import InputError

Vocabulary = tuple[str, ...]
"""Words in the order of their numbers, which begin at 0; the length of the vocabulary represents any other word."""

_SHOWN = 5


def numbers_of(texts: Any, vocabulary: Vocabulary) -> np.ndarray:
    """The number of each text, as int64 in the shape of the texts."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    array = np.asarray(texts)
    found = [numbers.get(as_text(text), len(vocabulary)) for text in array.ravel()]
    return np.asarray(found, np.int64).reshape(array.shape)


def as_text(text: Any) -> str:
    """Returns a text as a string; it may be bytes in UTF-8."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def are_texts(array: np.ndarray) -> bool:
    """Whether an array holds texts, and no numbers."""
    return array.dtype.kind in "OSU"


def as_numbers(array: np.ndarray, vocabulary: Vocabulary, subject: object) -> np.ndarray:
    """Returns the numbers of words, which may be given as texts or numbers.

    Raises:
        InputError: A number represents no word.
    """
    if are_texts(array):
        return numbers_of(array, vocabulary)
    strays = array[(array < 0) | (array > len(vocabulary))]
    if strays.size:
        known = f"0 to {len(vocabulary) - 1} for the words of the vocabulary, " if vocabulary else ""
        raise InputError(
            "a number stands for no word",
            subject=subject,
            expected=f"{known}{len(vocabulary)} for any {'other' if vocabulary else 'word'}",
            found=strays.flat[0],
            hint="texts may be given as well",
        )
    return array


def listed(words: Sequence[str]) -> str:
    """The first few words, quoted."""
    return ", ".join(map(repr, words[:_SHOWN])) + (" …" if len(words) > _SHOWN else "")
