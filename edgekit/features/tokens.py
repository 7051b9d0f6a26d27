"""Tokenization: how a text is cut into the words whose numbers an input accepts in place of the text.

The rules are those of ONNX's ``StringNormalizer`` and of ``Tokenizer`` of ``com.microsoft``, as ONNX Runtime executes
them: expressions in RE2's syntax, with leftmost-longest matching.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit.features.vocabularies import Vocabulary, are_texts, as_numbers, as_text

DEFAULT_COUNT = 64
"""The number of words of a text that an input has places for, if no sample shows how many there are."""
LEAST_COUNT = 16
LOWER, UPPER, ASCII_LOWER, ASCII_UPPER = "lower", "upper", "ascii-lower", "ascii-upper"
"""Changes of the case: of all letters, each by Unicode's simple mapping to one other, or of ASCII letters alone."""
_START, _END = "\x02", "\x03"
"""The words that mark the ends of a text."""
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_TO_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_SPACES = r" \t\n\f\r"
"""RE2's ``\\s``; Python's has ``\\v`` as well."""
_IN_CLASS = r"[^\]\[\\^]|\\[dDwWs]|\\[^\w\s]|\\[tnrfva]|(?<!\[)\^"
_ATOM = re.compile(
    rf"(?:(?P<edge>\\[bB])|(?:\\[dDwWsS]|\\[^\w\s]|\\[tnrfva]|\.|[^\\.\[\](){{}}|^$*+?]|\[\^?(?:{_IN_CLASS})+\])"
    r"(?P<times>[*+?]|\{\d+(?:,\d*)?\})?)"
)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SHOWN = 40


@dataclass(frozen=True)
class TokenRule:
    """How a text becomes words; with neither an expression nor separators, each character is a word.

    Character classes in expressions are ASCII: no other letter is a word character.
    """

    expression: str = ""
    """The expression whose matches are the words."""
    separators: tuple[str, ...] = ()
    """Expressions that separate words: the text is split at matches of the first, its parts at the second, etc."""
    case: str = ""
    """The case to which the text is changed first, one of the names above; empty for no change."""
    least: int = 1
    """The fewest characters of a word; shorter parts are dropped."""
    marked: bool = False
    """Whether U+0002 stands before the words and U+0003 behind them, where there are any."""
    count: int = DEFAULT_COUNT
    """The number of places for words; unused places get the number that represents words outside the vocabulary."""

    @property
    def flaw(self) -> str | None:
        """Why an expression of the rule may match differently elsewhere, see :func:`flaw_of`, or None."""
        for expression in (self.expression,) if self.expression else self.separators:
            flaw = flaw_of(expression)
            if flaw is not None:
                return f"expression {expression!r} {flaw}"
        return None

    def words(self, text: str) -> list[str]:
        """The words of one text, in their order."""
        text = _CHANGES[self.case](text) if self.case else text
        if self.expression:
            found = self._matching(text)
        elif self.separators:
            found = self._between(text)
        else:
            found = list(text)
        return [_START, *found, _END] if found and self.marked else found

    def __str__(self) -> str:
        if self.expression:
            what = f"what matches {self.expression}"
        elif self.separators:
            what = f"what stands between matches of {' and of '.join(map(repr, self.separators))}"
        else:
            what = "each character"
        least = f", of {self.least} characters or more" if self.least > 1 else ""
        letters = " of ASCII letters" if self.case.startswith("ascii-") else ""
        case = f", in {self.case.removeprefix('ascii-')} case{letters}" if self.case else ""
        return f"{what}{case}{least}"

    def as_record(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **({"expression": self.expression} if self.expression else {}),
            **({"separators": list(self.separators)} if self.separators else {}),
            **({"case": self.case} if self.case else {}),
            **({"least": self.least} if self.least > 1 else {}),
            **({"marked": True} if self.marked else {}),
            "count": self.count,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TokenRule:
        """The rule that :meth:`as_record` wrote."""
        return cls(**{**record, "separators": tuple(record.get("separators", ()))})

    def _matching(self, text: str) -> list[str]:
        pattern, found, place = _compiled(self.expression), [], 0
        while match := pattern.search(text, place):
            is_word = len(match[0]) >= self.least
            if is_word:
                found.append(match[0])
            place = match.end() if is_word else match.start() + 1
        return found

    def _between(self, text: str) -> list[str]:
        parts = [text]
        for separator in self.separators:
            cut = (part for whole in parts for part in _compiled(separator).split(whole))
            parts = [part for part in cut if len(part) >= self.least]
        return parts


Tokens = tuple[TokenRule, ...]
"""The rules of an input; empty if the input does not take words of texts.

The numbers of each rule follow those of the rule before it, with as many numbers as the rule has places.
"""


def flaw_of(expression: str) -> str | None:
    """Returns why an expression may match differently than in RE2, or is invalid or matches the empty text, or None.

    For a sequence of single characters, each with a quantifier, the greedy match that Python finds is the longest one.
    """
    translated, least = _translated(expression)
    if translated is None:
        return "has alternatives, groups or anchors, which may match otherwise elsewhere"
    if not least:
        return "matches the empty text"
    try:
        re.compile(translated, re.ASCII)
    except re.error as error:
        return f"is not an expression: {error}"
    return None


def places(tokens: Tokens) -> int:
    """Returns how many numbers represent a text."""
    return sum(rule.count for rule in tokens)


def enough_for(longest: int) -> int:
    """Returns the number of places for texts of up to ``longest`` words: a power of two."""
    return max(LEAST_COUNT, 1 << max(longest - 1, 0).bit_length())


def shape_of_numbers(shape: Sequence[int], tokens: Tokens) -> tuple[int, ...]:
    """The shape of the numbers of words, for texts of a shape."""
    return (*shape, places(tokens)) if tokens else tuple(shape)


def numbers_for(array: np.ndarray, vocabulary: Vocabulary, tokens: Tokens, subject: object) -> np.ndarray:
    """Returns the numbers that an input takes for an array of numbers or texts.

    Args:
        array: Numbers, which are returned; or texts.
        vocabulary: The words that the numbers represent.
        tokens: How a text becomes words; empty if each text is one word.
        subject: What the array is, for errors.

    Returns:
        int64 of the array's shape; if texts become words, with one more dimension of :func:`places`.

    Raises:
        InputError: A text has more words than there are places, or a number represents no word.
    """
    if not tokens or not are_texts(array):
        return as_numbers(array, vocabulary, subject)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    found = np.full((array.size, places(tokens)), len(vocabulary), np.int64)
    for row, text in zip(found, map(as_text, array.ravel()), strict=True):
        start = 0
        for rule in tokens:
            words = rule.words(text)
            if len(words) > rule.count:
                raise InputError(
                    "a text has more words than the input has places for",
                    subject=subject,
                    expected=f"up to {rule.count}: {rule}",
                    found=f"{len(words)} in {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'!r}",
                    hint="shorten it, or package again with a sample that has as many",
                )
            row[start : start + len(words)] = [numbers.get(word, len(vocabulary)) for word in words]
            start += rule.count
    return found.reshape(shape_of_numbers(array.shape, tokens))


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(character.lower()[0] for character in text)


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(_upper_letter, text))


def _upper_letter(character: str) -> str:
    """Returns Unicode's simple mapping to one letter; unchanged if both of Python's mappings have several letters."""
    for changed in (character.upper(), character.title()):
        if len(changed) == 1:
            return changed
    return character


_CHANGES: Mapping[str, Callable[[str], str]] = {
    LOWER: _lower,
    UPPER: _upper,
    ASCII_LOWER: lambda text: text.translate(_TO_LOWER),
    ASCII_UPPER: lambda text: text.translate(_TO_UPPER),
}


@functools.lru_cache(maxsize=64)
def _compiled(expression: str) -> re.Pattern[str]:
    translated, _ = _translated(expression)
    assert translated is not None
    return re.compile(translated, re.ASCII)


def _translated(expression: str) -> tuple[str | None, bool]:
    """Returns the expression in Python's syntax (None if it may match differently), and if matches are non-empty."""
    place, parts, least = 0, [], False
    while place < len(expression):
        atom = _ATOM.match(expression, place)
        if atom is None:
            return None, False
        text, times = atom[0], atom["times"] or ""
        if text.startswith("["):
            text = _ESCAPED.sub(lambda escaped: _SPACES if escaped[0] == r"\s" else escaped[0], text)
        elif text.startswith(r"\s"):
            text = f"[{_SPACES}]{times}"
        elif text.startswith(r"\S"):
            text = f"[^{_SPACES}]{times}"
        parts.append(text)
        least = least or not (atom["edge"] or times in ("*", "?") or times.startswith(("{0}", "{0,")))
        place = atom.end()
    return "".join(parts), least
