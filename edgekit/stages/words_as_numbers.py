"""Texts that the model only looks up become numbers, for devices whose runtimes have no tensors of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgekit.execution.reference import NotRunnableError
from edgekit.execution.word_proof import difference_on_words
from edgekit.features.vocabularies import listed
from edgekit.graph.words.inputs import WordInputs, first_numbers, takes_texts, with_word_inputs
from edgekit.model import Model
from edgekit.stages import Stage, StageResult
from edgekit.target import Profile, Target

MOST_NAMED = 6
"""Between how many values at most advice is given to cut a model."""


def needs_numbers(model: Model, profiles: Iterable[tuple[Target, Profile]]) -> bool:
    """Whether the model takes texts and one of the devices does not."""
    return takes_texts(model) and not all(target.takes_texts(profile) for target, profile in profiles)


class WordsAsNumbers(Stage[Model]):
    """Gives the model inputs of numbers where it takes texts and does nothing but look words up in lists that it holds.

    Each input has a vocabulary: the words that the nodes which read it look for. It takes a word's place among them,
    from 0, and the number behind the last place for any other word. Both forms are executed on words that the model
    knows and on others; where they differ, or texts are read in another way, they stay texts.
    """

    name = "words as numbers"

    def run(self, given: Model) -> StageResult:
        """Makes the inputs."""
        found = with_word_inputs(given)
        cut = _where_to_cut(given) if found.obstacles else ""
        reasons = [f"input {name!r} stays one of texts: {obstacle}{cut}" for name, obstacle in found.obstacles.items()]
        flaw = _flaw(given, found) if found.vocabularies else None
        if flaw is not None:
            reasons += [f"input {name!r} stays one of texts: {flaw}" for name in found.vocabularies]
            found = WordInputs(given)
        record = {
            "inputs": {name: len(words) for name, words in found.vocabularies.items()},
            "warnings": [*_told(found), *reasons],
        }
        return StageResult(found.model, record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        numbered = result.record["inputs"]
        expected = [
            replace(spec, dtype="int64", vocabulary=None) if spec.name in numbered else spec for spec in given.inputs
        ]
        if [replace(spec, vocabulary=None) for spec in result.model.inputs] != expected:
            raise self.broken("the inputs are others")
        if result.model.outputs != given.outputs:
            raise self.broken("the outputs are others")


def _where_to_cut(given: Model) -> str:
    """How to get the part of a model that computes with numbers."""
    starts, ends = first_numbers(given), [spec.name for spec in given.outputs]
    if not starts or len(starts) + len(ends) > MOST_NAMED:
        return ""
    cut = f"--inputs {','.join(starts)} --outputs {','.join(ends)}"
    return f"; `edgekit extract MODEL {cut} -o PART` leaves what computes with numbers"


def _flaw(given: Model, found: WordInputs) -> str | None:
    """What the changed model does otherwise, or why that cannot be told."""
    try:
        difference = difference_on_words(given, found.model, found.looked_up, found.vocabularies)
    except NotRunnableError as error:
        return f"nothing could be compared, because {error}"
    return None if difference is None else f"with numbers the model would compute otherwise: {difference}"


def _told(found: WordInputs) -> list[str]:
    """What has changed at the model's inputs."""
    told = []
    for name, words in found.vocabularies.items():
        if not words:
            told.append(f"input {name!r} takes a number in place of a text, 0 say: the model looks for no word in it")
            continue
        count = "one word" if len(words) == 1 else f"{len(words)} words"
        told.append(
            f"input {name!r} takes the number of a word in place of the text: from 0, its place among {count} "
            f"({listed(words)}), or {len(words)} for any other word"
        )
    told += [
        f"node {node!r} fails at a word that is not in its list; given the word's number, it gives zeros"
        for node in found.failing
    ]
    return told
