"""Lines of words to try tokenizing models on: words that they know, in several cases and next to many characters."""

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
"""Turns that combine everything in :data:`_BETWEEN` with every case: the two counts have no common divisor."""
_LONG = 7
"""In every seventh of these turns, lines have as many words as the model has places for."""


def turns_of_lines(size: int, vocabulary: Vocabulary) -> int:
    """How many trials with arrays of ``size`` texts go through all words, and all that may stand between them."""
    return _MIXED + -(-len(vocabulary) // (size * WORDS_OF_A_LINE))


def lines_in_turn(shape: tuple[int, ...], vocabulary: Vocabulary, turn: int, tokens: Tokens) -> np.ndarray:
    """Texts of several words of the vocabulary one after another; each turn continues where the one before ended.

    Args:
        shape: The shape of the array of texts.
        vocabulary: The words, one at least.
        turn: The number of the trial. In the first ones, case and separators vary; then words have their own case, and
            spaces between them.
        tokens: How a text becomes words; no text has more words than these rules have places for.
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
    """The texts, with the ends cut off those that have more words than the rules have places for."""
    result = np.empty(texts.shape, object)
    for place, text in np.ndenumerate(texts):
        text = str(text)
        while any(len(rule.words(text)) > rule.count for rule in tokens):
            text = text[: len(text) * 3 // 4]
        result[place] = text
    return result
