"""Proves by execution that a model which takes numbers of words computes what it computed from the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.execution.equivalence import trial_inputs
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import compare
from edgekit.execution.trial_lines import lines_in_turn, shortened, turns_of_lines
from edgekit.features.tokens import Tokens, numbers_for
from edgekit.features.vocabularies import Vocabulary, are_texts
from edgekit.graph.extraction import extract_part
from edgekit.graph.words.tokenizers import with_other_pads
from edgekit.model import Arrays, Model, ValueSpec

SEEDS = 8
"""How many times words are drawn from those that the model looks for in each column."""
MOST_TURNS = 1024
"""Most trials that go through all words one after another."""
_UNKNOWN_SHARE = 0.25
_UNKNOWN = ("", "\N{EM DASH}", " ", "?")
"""Words that models may not know. A known word with one of these appended serves as an unknown word, too."""


def difference_on_words(
    before: Model,
    after: Model,
    looked_up: Sequence[str],
    vocabularies: Mapping[str, Vocabulary],
    tokens: Mapping[str, Tokens] | None = None,
    samples: Iterable[Arrays] = (),
) -> str | None:
    """In words, what nodes that look words up compute differently from the words' numbers; None if nothing.

    Only what these nodes depend on is executed, on words that they know and on others, in the sizes of
    :func:`edgekit.execution.equivalence.trial_inputs`, then on samples. Texts that ``before`` fails on are skipped.
    Shorter texts are padded with a text that is no word, so that the result for a text does not depend on longer ones.

    Args:
        before: The model that takes texts.
        after: Its form that takes numbers.
        looked_up: Names, in both models, of the values that the nodes compute.
        vocabularies: The words by the name of the input.
        tokens: How texts become words, by input that takes the numbers of several words of a text.
        samples: Arrays by input; samples that do not hold texts are skipped.

    Raises:
        NotRunnableError: ONNX Runtime cannot execute the model on any words.
    """
    if not looked_up:
        return None
    tokens = tokens or {}
    before = with_other_pads(before, {word for name in tokens for word in vocabularies[name]})
    texts, numbers = (extract_part(model, outputs=looked_up) for model in (before, after))
    proof = _Proof(Reference(texts), Reference(numbers), vocabularies, tokens)
    for sizes in trial_inputs(texts):
        before_this = proof.runs
        for feeds in _trials(texts, sizes, vocabularies, tokens):
            difference = proof.difference(feeds)
            if difference is not None:
                return difference
        if proof.runs > before_this:
            break
    if not proof.runs:
        raise proof.failure or NotRunnableError("an input has no known rank", None)
    needed = {spec.name for spec in texts.inputs}
    for arrays in samples:
        feeds = {name: array for name, array in arrays.items() if name in needed}
        if feeds.keys() == needed and all(are_texts(feeds[name]) for name in vocabularies.keys() & needed):
            difference = proof.difference(feeds)
            if difference is not None:
                return f"{difference}, on a sample"
    return None


@dataclass
class _Proof:
    """Executes both forms of a model on the same texts."""

    reference: Reference
    changed: Reference
    vocabularies: Mapping[str, Vocabulary]
    tokens: Mapping[str, Tokens]
    runs: int = 0
    failure: NotRunnableError | None = None

    def difference(self, feeds: Arrays) -> str | None:
        """What the two compute differently from texts; None if nothing, or if the original does not run on them."""
        try:
            expected = self.reference.run(feeds)
        except NotRunnableError as error:
            self.failure = self.failure or error
            return None
        self.runs += 1
        found = self.changed.run({name: self._numbers(name, array) for name, array in feeds.items()})
        for name, array in expected.items():
            difference = compare(f"value {name}", array, found.get(name), tolerance=0)
            if difference is not None:
                return difference
        return None

    def _numbers(self, name: str, array: np.ndarray) -> np.ndarray:
        if name not in self.vocabularies:
            return array
        return numbers_for(array, self.vocabularies[name], self.tokens.get(name, ()), f"input {name!r}")


def _trials(
    model: Model,
    sizes: Sequence[Sequence[ValueSpec]],
    vocabularies: Mapping[str, Vocabulary],
    tokens: Mapping[str, Tokens],
) -> Iterator[Arrays]:
    """Inputs with words of each column, with some of these replaced by unknown words, and with all words in turn."""
    limits = index_limits(model)
    for seed in range(SEEDS):
        feeds = seeded_inputs(sizes[seed % len(sizes)], seed, limits)
        yield _fitting(feeds, tokens)
        rng = np.random.default_rng(seed)
        unknown = {
            name: _with_unknown(array, vocabularies[name], rng) if name in vocabularies else array
            for name, array in feeds.items()
        }
        yield _fitting(unknown, tokens)
    feeds = _fitting(seeded_inputs(sizes[0], SEEDS, limits), tokens)
    given = [name for name in feeds if name in vocabularies and vocabularies[name] and feeds[name].size]
    turns = max(
        (
            turns_of_lines(feeds[name].size, vocabularies[name])
            if name in tokens
            else -(-len(vocabularies[name]) // feeds[name].size)
            for name in given
        ),
        default=0,
    )
    for turn in range(min(turns, MOST_TURNS)):
        lines = {
            name: _in_turn(feeds[name].shape, vocabularies[name], turn)
            if name not in tokens
            else lines_in_turn(feeds[name].shape, vocabularies[name], turn, tokens[name])
            for name in given
        }
        yield feeds | lines


def _fitting(feeds: Arrays, tokens: Mapping[str, Tokens]) -> Arrays:
    """The inputs, with texts cut that have more words than the model has places for."""
    return {name: shortened(array, tokens[name]) if name in tokens else array for name, array in feeds.items()}


def _with_unknown(texts: np.ndarray, vocabulary: Vocabulary, rng: np.random.Generator) -> np.ndarray:
    """The texts with some of them replaced by words that the vocabulary does not hold."""
    result = texts.astype(object)
    for place in zip(*np.nonzero(rng.random(texts.shape) < _UNKNOWN_SHARE), strict=True) if texts.ndim else [()]:
        end = str(rng.choice(_UNKNOWN))
        word = end if rng.random() < 0.5 else f"{result[place]}{end}"
        if word not in vocabulary:
            result[place] = word
    return result


def _in_turn(shape: tuple[int, ...], vocabulary: Vocabulary, turn: int) -> np.ndarray:
    """Words of the vocabulary one after another; each turn continues where the one before ended."""
    count = int(np.prod(shape, dtype=np.int64))
    words = [vocabulary[(turn * count + place) % len(vocabulary)] for place in range(count)]
    return np.array(words, object).reshape(shape)
