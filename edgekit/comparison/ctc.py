"""Text that a recognizer spells: the most probable class of every step, without repetitions and blanks (CTC).

Connectionist temporal classification, Graves et al. 2006: a step's class is a character or the blank; repetitions of a
class count as one character, and blanks as none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.model import Arrays, ValueSpec

FEWEST_STEPS = 4
FEWEST_CLASSES = 10
LEAST_BLANKS = 0.2
"""The least share of the steps whose class is the blank; no other class may be more frequent."""
MOST_OFF_ONE = 1e-2
LEAST_SURE = 0.5
"""The least median probability of the characters. A recognizer is sure of what it spells; an acoustic model, which
tells the states of phones apart at every step, gives several states a high probability at once."""
NAMES_OF_BLANKS = frozenset({"", "-", "_", "blank", "blk", "ctc", "eps", "epsilon", "pad", "ε", "∅"})
"""What vocabularies call the blank, without brackets and in small letters: ``<blank>``, ``[PAD]``, ``ε``."""
_TOKENS = ("int32", "int64")


@dataclass(frozen=True)
class Recognizer:
    """How text is read from an output; can be pickled."""

    output: str
    blank: int
    """The class that means no character."""

    def read(self, outputs: Arrays) -> list[int]:
        """Returns the characters of a sample, as class indices."""
        return spelled(_steps(outputs[self.output]), self.blank)


def recognised(answers: Sequence[Arrays], inputs: Sequence[ValueSpec], names: Sequence[str] = ()) -> Recognizer | None:
    """Returns how a model's text is read, or None if no output looks like a recognizer's.

    The blank has to be the first or the last class. Unless the blank's name is one of :data:`NAMES_OF_BLANKS`, the
    characters have to be probable (:data:`LEAST_SURE`), and without a picture among the inputs the output has to hold
    probabilities or their logarithms, since any sequence may have classes at its steps. Samples may have different
    numbers of steps: sounds are of any length.

    Args:
        answers: The model's outputs on a few samples.
        inputs: The model's inputs.
        names: The names of the classes; empty if unknown.
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
    """Whether an array is (1, steps, classes) or (steps, 1, classes), with the given last axis."""
    return array.ndim == 3 and 1 in array.shape[:2] and array.shape[-1:] == classes and array.shape[0] > 0


def _are_probabilities(steps: np.ndarray) -> bool:
    """Whether each step's numbers add up to 1, or are logarithms, as LogSoftmax gives them, of numbers that do."""
    wide = steps.astype(np.float64)
    shares = np.exp(wide) if wide.max(initial=0.0) <= 0 else wide
    return bool((np.abs(shares.sum(axis=1) - 1) <= MOST_OFF_ONE).all())


def _is_sure(steps: Sequence[np.ndarray], blank: int) -> bool:
    """Whether the median probability of the characters is at least :data:`LEAST_SURE`; true without any characters."""
    spelling = [each[each.argmax(axis=1) != blank] for each in steps]
    largest = np.concatenate([_probabilities(each).max(axis=1) for each in spelling])
    return not largest.size or float(np.median(largest)) >= LEAST_SURE


def _probabilities(steps: np.ndarray) -> np.ndarray:
    """Returns the steps' numbers if they are probabilities, else their softmax."""
    wide = steps.astype(np.float64)
    if wide.min(initial=0.0) >= 0 and _are_probabilities(steps):
        return wide
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _steps(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


def spelled(steps: np.ndarray, blank: int) -> list[int]:
    """Returns the characters that scores (steps, classes) spell, as class indices."""
    classes = steps.argmax(axis=1)
    starts = np.append(True, classes[1:] != classes[:-1])
    return [int(each) for each in classes[starts] if each != blank]


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns the Levenshtein distance of two texts: the least number of insertions, deletions and replacements."""
    costs = np.arange(len(other) + 1)
    letters = np.asarray(other)
    for count, letter in enumerate(one, 1):
        kept = np.append(count, np.minimum(costs[1:] + 1, costs[:-1] + (letters != letter)))
        steps = np.arange(len(kept))
        costs = np.minimum.accumulate(kept - steps) + steps
    return int(costs[-1])
