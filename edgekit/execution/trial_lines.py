"""Lines of words to try models on that cut texts into words: words that they know, in all cases and beside anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit.features.tokens import Tokens
from edgekit.features.vocabularies import Vocabulary

WORDS_OF_A_LINE = 8
_CASES: tuple[Callable[[str], str], ...] = (str, str.upper, str.title, str.lower, str.swapcase)
_BETWEEN = (
    " ",
    "",
    ", ",
    "-",
    "_",
    ".",
    "'",
    "#",
    "\t",
    "\n",
    "\r\n",
    "\v",
    "\f",
    "\x1c",
    "\N{NEXT LINE}",
    "\N{NO-BREAK SPACE}",
    "\N{LINE SEPARATOR}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "\N{LATIN CAPITAL LETTER E WITH ACUTE}",
    "\N{COMBINING ACUTE ACCENT}",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}",
    "\N{LATIN SMALL LETTER DOTLESS I}",
    "\N{LATIN SMALL LETTER LONG S}",
    "\N{KELVIN SIGN}",
    "\N{LATIN SMALL LETTER SHARP S}",
    "\N{ARABIC-INDIC DIGIT FIVE}",
    "\N{FULLWIDTH LATIN CAPITAL LETTER A}",
    "\N{CJK UNIFIED IDEOGRAPH-4E2D}",
    "\N{GRINNING FACE}",
)
"""What stands between words: spaces, marks and letters beyond ASCII. Letters are a part of the words for some rules."""
_MIXED = 5 * len(_BETWEEN)
"""Turns of all that may stand between words, and all cases: the two numbers have no common divisor."""
_LONG = 7
"""Every how many of these turns lines have as many words as there are places for."""


def turns_of_lines(size: int, vocabulary: Vocabulary) -> int:
    """How many trials it takes to have all words in turn, in arrays of ``size`` texts, and all that may be beside."""
    return _MIXED + -(-len(vocabulary) // (size * WORDS_OF_A_LINE))


def lines_in_turn(shape: tuple[int, ...], vocabulary: Vocabulary, turn: int, tokens: Tokens) -> np.ndarray:
    """Texts of several words of the vocabulary one after another, going on where the turn before ended.

    Args:
        shape: Of the texts.
        vocabulary: The words, one at least.
        turn: What is between the words, and their case, differs in the first turns; then it is a space, and the words'
            own.
        tokens: How a text becomes words; none of the texts has more than they have places for.
    """
    texts = np.empty(shape, object)
    mixed = turn < _MIXED
    for number, place in enumerate(np.ndindex(*shape)):
        first = ((turn if mixed else turn - _MIXED) * texts.size + number) * WORDS_OF_A_LINE
        count = max(rule.count for rule in tokens) if mixed and turn % _LONG == 0 else WORDS_OF_A_LINE
        words = [vocabulary[(first + word) % len(vocabulary)] for word in range(count)]
        case = _CASES[turn % len(_CASES)] if mixed else str
        between = _BETWEEN[(turn + number) % len(_BETWEEN)] if mixed else " "
        texts[place] = between.join(map(case, words))
    return shortened(texts, tokens)


def shortened(texts: np.ndarray, tokens: Tokens) -> np.ndarray:
    """The texts without the ends of those that have more words than there are places for."""
    result = np.empty(texts.shape, object)
    for place, text in np.ndenumerate(texts):
        text = str(text)
        while any(len(rule.words(text)) > rule.count for rule in tokens):
            text = text[: len(text) * 3 // 4]
        result[place] = text
    return result
