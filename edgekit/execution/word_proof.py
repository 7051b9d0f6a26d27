"""Proves, by executing both, that a model computes of numbers of words what it computed of the words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.execution.equivalence import trial_inputs
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import compare
from edgekit.features.vocabularies import Vocabulary, numbers_of
from edgekit.graph.extraction import extract_part
from edgekit.model import Arrays, Model, ValueSpec

SEEDS = 8
"""Trials of words that are drawn from those that the model looks for in each column."""
MOST_TURNS = 1024
"""Trials of all words one after another, unless that takes fewer."""
_UNKNOWN_SHARE = 0.25
_UNKNOWN = ("", "\N{EM DASH}", " ", "?")
"""What words may be that the model does not know; a word of it with one of these behind it is unknown, too."""


def difference_on_words(
    before: Model, after: Model, looked_up: Sequence[str], vocabularies: Mapping[str, Vocabulary]
) -> str | None:
    """What nodes that look words up give otherwise where they get numbers; None where there is nothing.

    Only what these nodes depend on is executed, on words that they know and on others, in the sizes of
    :func:`edgekit.execution.equivalence.trial_inputs`. What the model fails on as it was tells nothing.

    Args:
        before: The model that takes texts.
        after: Its form that takes numbers.
        looked_up: The values that the nodes make, by their names in both.
        vocabularies: The words by the name of the input.

    Raises:
        NotRunnableError: ONNX Runtime cannot execute the model on any words.
    """
    if not looked_up:
        return None
    texts, numbers = (extract_part(model, outputs=looked_up) for model in (before, after))
    reference, changed = Reference(texts), Reference(numbers)
    failure: NotRunnableError | None = None
    for sizes in trial_inputs(texts):
        ran = False
        for feeds in _trials(texts, sizes, vocabularies):
            try:
                expected = reference.run(feeds)
            except NotRunnableError as error:
                failure = failure or error
                continue
            ran = True
            found = changed.run(_encoded(feeds, vocabularies))
            for name, array in expected.items():
                difference = compare(f"value {name}", array, found.get(name), tolerance=0)
                if difference is not None:
                    return difference
        if ran:
            return None
    raise failure or NotRunnableError("an input has no known rank", None)


def _encoded(feeds: Arrays, vocabularies: Mapping[str, Vocabulary]) -> Arrays:
    return {
        name: numbers_of(array, vocabularies[name]) if name in vocabularies else array for name, array in feeds.items()
    }


def _trials(
    model: Model, sizes: Sequence[Sequence[ValueSpec]], vocabularies: Mapping[str, Vocabulary]
) -> Iterator[Arrays]:
    """Inputs: words of each column, the same with unknown ones among them, and all words in turn."""
    limits = index_limits(model)
    for seed in range(SEEDS):
        feeds = seeded_inputs(sizes[seed % len(sizes)], seed, limits)
        yield feeds
        rng = np.random.default_rng(seed)
        yield {
            name: _with_unknown(array, vocabularies[name], rng) if name in vocabularies else array
            for name, array in feeds.items()
        }
    feeds = seeded_inputs(sizes[0], SEEDS, limits)
    given = [name for name in feeds if name in vocabularies and vocabularies[name] and feeds[name].size]
    turns = max((-(-len(vocabularies[name]) // feeds[name].size) for name in given), default=0)
    for turn in range(min(turns, MOST_TURNS)):
        yield feeds | {name: _in_turn(feeds[name].shape, vocabularies[name], turn) for name in given}


def _with_unknown(texts: np.ndarray, vocabulary: Vocabulary, rng: np.random.Generator) -> np.ndarray:
    """The texts with some words in place of which there is another one that the model does not know."""
    result = texts.astype(object)
    for place in zip(*np.nonzero(rng.random(texts.shape) < _UNKNOWN_SHARE), strict=True) if texts.ndim else [()]:
        end = str(rng.choice(_UNKNOWN))
        word = end if rng.random() < 0.5 else f"{result[place]}{end}"
        if word not in vocabulary:
            result[place] = word
    return result


def _in_turn(shape: tuple[int, ...], vocabulary: Vocabulary, turn: int) -> np.ndarray:
    """Words of the vocabulary one after another, going on where the turn before ended."""
    count = int(np.prod(shape, dtype=np.int64))
    words = [vocabulary[(turn * count + place) % len(vocabulary)] for place in range(count)]
    return np.array(words, object).reshape(shape)
