"""Text that a recognizer spells: the most probable class of every step, without repetitions and blanks (CTC).

Connectionist temporal classification, Graves et al. 2006: a step's class is a character or the blank, repetitions of a
class are one character, and blanks are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.model import Arrays, ValueSpec

FEWEST_STEPS = 4
FEWEST_CLASSES = 10
LEAST_BLANKS = 0.2
"""Of how many steps at least the class is the blank, which is more than any other's."""
MOST_OFF_ONE = 1e-2
LEAST_SURE = 0.5
"""The probability that half of the characters have to have at least. A recognizer is sure of what it spells; of the
states of phones, which an acoustic model tells apart at every step, several are probable at once."""
NAMES_OF_BLANKS = frozenset({"", "-", "_", "blank", "blk", "ctc", "eps", "epsilon", "pad", "ε", "∅"})
"""What vocabularies call the blank, without brackets and in small letters: ``<blank>``, ``[PAD]``, ``ε``."""
_TOKENS = ("int32", "int64")


@dataclass(frozen=True)
class Recognizer:
    """How text is read from an output; can be pickled."""

    output: str
    blank: int
    """The class that stands for no character."""

    def read(self, outputs: Arrays) -> list[int]:
        """The characters of a sample, as numbers of classes."""
        return spelled(_steps(outputs[self.output]), self.blank)


def recognised(answers: Sequence[Arrays], inputs: Sequence[ValueSpec], names: Sequence[str] = ()) -> Recognizer | None:
    """How the text of a model is read; None where it spells none, as far as can be seen.

    The first or the last class is the blank, and the characters are probable (:data:`LEAST_SURE`). Without a picture
    among the inputs the output has to hold probabilities or their logarithms, or the blank has the name of one, since
    a step of anything may have classes. Samples may have different numbers of steps: sounds are of any length.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        names: What the classes are called; empty where that is not known.
    """
    if not answers or any(spec.dtype in _TOKENS and len(spec.shape or ()) > 1 for spec in inputs):
        return None
    is_picture = any(len(spec.shape or ()) == 4 for spec in inputs)
    for name, array in answers[0].items():
        if array.dtype.kind != "f" or not all(_may_be_steps(answer[name], array.shape[-1:]) for answer in answers):
            continue
        steps = [_steps(answer[name]) for answer in answers]
        if max(map(len, steps)) < FEWEST_STEPS or steps[0].shape[1] < FEWEST_CLASSES:
            continue
        counts = np.bincount(np.concatenate([each.argmax(axis=1) for each in steps]), minlength=steps[0].shape[1])
        blank = int(counts.argmax())
        if blank not in (0, len(counts) - 1) or counts[blank] < LEAST_BLANKS * counts.sum():
            continue
        is_named = len(names) == len(counts) and names[blank].strip("<>[]|").casefold() in NAMES_OF_BLANKS
        if not is_named and not (_is_sure(steps, blank) and (is_picture or all(map(_are_probabilities, steps)))):
            continue
        recognizer = Recognizer(name, blank)
        if any(recognizer.read(answer) for answer in answers):
            return recognizer
    return None


def _may_be_steps(array: np.ndarray, classes: tuple[int, ...]) -> bool:
    """Whether it holds steps of one sample, each with so many classes."""
    return array.ndim == 3 and 1 in array.shape[:2] and array.shape[-1:] == classes and array.shape[0] > 0


def _are_probabilities(steps: np.ndarray) -> bool:
    """Whether each step's numbers add up to 1, or those do of which they are the logarithms, as LogSoftmax has it."""
    wide = steps.astype(np.float64)
    shares = np.exp(wide) if wide.max(initial=0.0) <= 0 else wide
    return bool((np.abs(shares.sum(axis=1) - 1) <= MOST_OFF_ONE).all())


def _is_sure(steps: Sequence[np.ndarray], blank: int) -> bool:
    """Whether half of the steps that spell a character give it most of the probability."""
    spelling = [each[each.argmax(axis=1) != blank] for each in steps]
    largest = np.concatenate([_probabilities(each).max(axis=1) for each in spelling])
    return not largest.size or float(np.median(largest)) >= LEAST_SURE


def _probabilities(steps: np.ndarray) -> np.ndarray:
    """What steps hold, or the softmax of it where that is no probabilities."""
    wide = steps.astype(np.float64)
    if wide.min(initial=0.0) >= 0 and _are_probabilities(steps):
        return wide
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _steps(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def spelled(steps: np.ndarray, blank: int) -> list[int]:
    """The characters of scores (steps, classes)."""
    classes = steps.argmax(axis=1)
    starts = np.append(True, classes[1:] != classes[:-1])
    return [int(each) for each in classes[starts] if each != blank]


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """How many characters have to be put in, left out or exchanged to make one text the other (Levenshtein)."""
    costs = np.arange(len(other) + 1)
    letters = np.asarray(other)
    for count, letter in enumerate(one, 1):
        kept = np.append(count, np.minimum(costs[1:] + 1, costs[:-1] + (letters != letter)))
        steps = np.arange(len(kept))
        costs = np.minimum.accumulate(kept - steps) + steps
    return int(costs[-1])
