"""Texts that the model only looks up become numbers, for devices whose runtimes have no tensors of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from shlex import quote

from edgekit.data.sampled_shapes import SampledShapes
from edgekit.execution.reference import NotRunnableError
from edgekit.execution.word_proof import difference_on_words
from edgekit.features.tokens import DEFAULT_COUNT, Tokens, enough_for
from edgekit.features.vocabularies import Vocabulary, are_texts, as_text, listed
from edgekit.graph.words.inputs import WordInputs, first_numbers, takes_texts, with_word_inputs, words_of_texts
from edgekit.graph.words.tokenizers import pads
from edgekit.model import Model, ValueSpec
from edgekit.stages import Stage, StageResult
from edgekit.target import Profile, Target

MOST_NAMED = 6
"""Most values, at both ends together, that the hint to cut a part out of a model names."""


def needs_numbers(model: Model, profiles: Iterable[tuple[Target, Profile]]) -> bool:
    """Whether the model takes texts and one of the devices does not."""
    return takes_texts(model) and not all(target.takes_texts(profile) for target, profile in profiles)


class WordsAsNumbers(Stage[Model]):
    """Gives the model inputs of numbers where it takes texts and does nothing but look words up in lists that it holds.

    If the model cuts texts into words first, texts are cut outside of it instead: the input takes the numbers of a
    text's words. It has as many places as the longest sample has words, rounded up to a power of two.

    Each input has a vocabulary: the words that the nodes which read the input look for. The number of a word is its
    place among them, from 0; the number after the last place means any other word. Both forms are executed on words
    that the model knows and on others. If the forms differ, or the model reads texts in another way, inputs stay texts.

    Args:
        sampled: The samples, on whose texts both forms are executed as well.
        counts: By input, how many places it has for the words of a text, for each of its rules, as the record of an
            earlier run tells; None: as many as the samples need. The texts of other inputs are not cut.
    """

    name = "words as numbers"

    def __init__(self, sampled: SampledShapes | None = None, counts: Mapping[str, Sequence[int]] | None = None) -> None:
        self._sampled = sampled
        self._counts = counts

    def run(self, given: Model) -> StageResult:
        """Makes the inputs.

        Raises:
            InputError: A sample is damaged.
        """
        counts = self._counts
        if counts is None:
            counts = {name: self._most_words(given, name, rules) for name, rules in words_of_texts(given).items()}
        found = with_word_inputs(given, counts)
        cut = _where_to_cut(given) if found.obstacles else ""
        reasons = [f"input {name!r} still takes texts: {obstacle}{cut}" for name, obstacle in found.obstacles.items()]
        flaw = self._flaw(given, found) if found.vocabularies else None
        if flaw is not None:
            reasons += [f"input {name!r} still takes texts: {flaw}" for name in found.vocabularies]
            found = WordInputs(given)
        counted = {name: [rule.count for rule in rules] for name, rules in found.tokens.items()}
        record = {
            "inputs": {name: len(words) for name, words in found.vocabularies.items()},
            **({"tokens": counted} if counted else {}),
            "warnings": [*_warnings(found, given), *reasons],
        }
        return StageResult(found.model, record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        numbered, counts = result.record["inputs"], result.record.get("tokens", {})
        expected = []
        for spec in given.inputs:
            last = (sum(counts[spec.name]),) if spec.name in counts else ()
            shape = None if spec.shape is None else (*spec.shape, *last)
            expected.append(replace(spec, dtype="int64", shape=shape) if spec.name in numbered else spec)
        if [replace(spec, vocabulary=None, tokens=()) for spec in result.model.inputs] != expected:
            raise self.broken("the inputs are others")
        pairs = list(zip(given.outputs, result.model.outputs, strict=False))
        if len(given.outputs) != len(result.model.outputs) or not all(_is_same(*pair) for pair in pairs):
            raise self.broken("the outputs are others")

    def _most_words(self, given: Model, name: str, rules: Tokens) -> list[int]:
        """How many words an input has places for by each of its rules."""
        if self._sampled is None:
            return [DEFAULT_COUNT] * len(rules)
        rank = next(len(spec.shape or ()) for spec in given.inputs if spec.name == name)
        longest: list[int] = []
        for arrays in self._sampled.arrays([name], given.nan_inputs):
            array = arrays[name]
            if are_texts(array):
                texts = list(map(as_text, array.ravel()))
                found = [max((len(rule.words(text)) for text in texts), default=0) for rule in rules]
                longest = [max(pair) for pair in zip(found, longest or found, strict=True)]
            elif array.ndim == rank + 1 and array.size and len(rules) == 1:
                return [array.shape[-1]]
        return [enough_for(count) for count in longest] or [DEFAULT_COUNT] * len(rules)

    def _flaw(self, given: Model, found: WordInputs) -> str | None:
        """In words, what the changed model computes differently, or why they were not compared; None if nothing."""
        texts = [] if self._sampled is None else self._sampled.arrays(list(found.vocabularies), given.nan_inputs)
        try:
            difference = difference_on_words(
                given, found.model, found.looked_up, found.vocabularies, found.tokens, texts
            )
        except NotRunnableError as error:
            return f"nothing could be compared, because {error}"
        if difference is None:
            return None
        return f"with numbers in place of texts, the model computes something else: {difference}"


def _is_same(before: ValueSpec, after: ValueSpec) -> bool:
    """Whether an output has kept its name, type and sizes; sizes that were not known may be known now."""
    if (before.name, before.dtype) != (after.name, after.dtype):
        return False
    if before.shape is None or after.shape is None:
        return before.shape is None
    return len(before.shape) == len(after.shape) and all(
        old == new or not isinstance(old, int) for old, new in zip(before.shape, after.shape, strict=True)
    )


def _where_to_cut(given: Model) -> str:
    """The part of a hint that says how to cut out what computes with numbers; empty if that takes too many names."""
    starts, ends = first_numbers(given), [spec.name for spec in given.outputs]
    if not starts or len(starts) + len(ends) > MOST_NAMED:
        return ""
    cut = f"--inputs {quote(','.join(starts))} --outputs {quote(','.join(ends))}"
    return f"; `edgekit extract MODEL {cut} -o PART` cuts out the part that computes with numbers"


def _warnings(found: WordInputs, given: Model) -> list[str]:
    """Warnings that say what has changed at the model's inputs."""
    warnings = []
    for name, words in found.vocabularies.items():
        if name in found.tokens:
            warnings.append(_word_warning(name, found.tokens[name], words))
            continue
        if not words:
            warnings.append(
                f"input {name!r} takes a number in place of a text, for example 0: the model looks up no word there"
            )
            continue
        count = "one word" if len(words) == 1 else f"{len(words)} words"
        warnings.append(
            f"input {name!r} takes the number of a word in place of the text: from 0, its place among {count} "
            f"({listed(words)}), or {len(words)} for any other word"
        )
    warnings += _padding_warnings(given, found)
    warnings += [
        f"node {node!r} fails in the original at a word that is not in its list; in the built model it gives zeros"
        for node in found.failing
    ]
    return warnings


def _word_warning(name: str, tokens: Tokens, words: Vocabulary) -> str:
    """A warning that says what an input takes in place of texts that the model cut into words."""
    cut = ", then ".join(f"of up to {rule.count} words ({rule})" for rule in tokens)
    known = "one word" if len(words) == 1 else f"{len(words)} words"
    return (
        f"input {name!r} takes the numbers {cut} in place of each text: from 0, a word's place among {known} "
        f"({listed(words)}), or {len(words)} for any other word and behind the last one"
    )


def _padding_warnings(given: Model, found: WordInputs) -> Iterator[str]:
    """Warnings that the original counts the padding of shorter texts as a word."""
    known = {word for name in found.tokens for word in found.vocabularies[name]}
    for pad in sorted(pads(given) & known) if found.tokens else ():
        yield (
            f"if several texts are given at once, the original fills the shorter ones with {pad!r} and counts it as "
            "a word; the built model computes each text as if it were given alone"
        )
