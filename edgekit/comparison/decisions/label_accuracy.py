"""How often the original and the built model find a sample's label, and which output tells the class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit.comparison.decisions.class_overlap import CROSSING
from edgekit.comparison.decisions.exchanged_labels import Exchanged
from edgekit.comparison.decisions.ranking import Ranking
from edgekit.comparison.decisions.recalls import ClassLoss
from edgekit.comparison.floors import loss
from edgekit.errors import InputError
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Arrays

TWO = 2
"""The number of classes that a single probability tells apart, and of which scores rank the samples."""


@dataclass(frozen=True)
class TaskAccuracy:
    """How many labels the original and the built model find."""

    output: str
    reference: float
    built: float
    """Shares of the samples, 0 to 1."""
    classes: int | None = None
    """How many classes there are; None if the output tells a class number."""
    numbered: str | None = None
    """How classes were numbered, in words, where nothing but the order of names told it."""
    worst_class: ClassLoss | None = None
    """The class whose losses are the strongest evidence of a regression; None if no class lost samples."""
    exchanged: tuple[Exchanged, ...] = ()
    """Labels that the original answers as each other, in a cycle."""
    areas: tuple[float, float] | None = None
    """With two classes, the area under the ROC curve of the original's scores and of the built model's
    (:mod:`edgekit.comparison.decisions.ranking`); else None."""
    listed: int | None = None
    """How many classes the list has in which labels are searched; None if the output tells one class."""

    @property
    def drop(self) -> float:
        """What the built model lost; negative where it is better."""
        return loss(self.reference, self.built)

    def is_chance(self, samples: int) -> bool:
        """Whether the original finds no more of the labels of these samples than a guess among the classes would.

        A guess finds ``n·p`` of ``n`` labels on average, with a standard deviation of ``√(n·p·(1-p))``, where ``p`` is
        one over the number of classes (binomial distribution). Up to two deviations above the average are chance.
        """
        if self.classes is None:
            return self.reference == 0
        chance = 1 / self.classes
        return self.reference <= chance + 2 * math.sqrt(chance * (1 - chance) / samples)

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        shares = {"output": self.output, "reference": self.reference, "built": self.built}
        worst = {} if self.worst_class is None else {"worst_class": self.worst_class.as_record()}
        auc = {} if self.areas is None else {"auc": dict(zip(("reference", "built"), self.areas, strict=True))}
        listed = {} if self.listed is None else {"listed": self.listed}
        return {"metric": self.metric, **shares, "drop": self.drop, **worst, **auc, **listed}

    @property
    def metric(self) -> str:
        """What the shares are, in words."""
        return f"top-{self.listed or 1} accuracy"


class LabelCount:
    """Counts the labels that a model finds.

    Args:
        output: The output that a class is read from; see :func:`class_output`.
        numbers: The numbers that the output gives for the classes, in their order; empty if it counts from 0.
    """

    def __init__(self, output: str, numbers: Sequence[int] = ()) -> None:
        self.output = output
        self._numbers = numbers
        self.classes: int | None = None
        """How many classes there are; None before the first sample, and for class numbers without scores beside
        them."""
        self.listed: int | None = None
        """How many classes a sample's list has; None if the output tells one class."""
        self.by_class: Counter[int] = Counter()
        """How many samples of each class are found."""
        self.answers: Counter[tuple[int, int | None]] = Counter()
        """How many samples there are for each pair of a label and the class that is answered; None is no class."""
        self.ranking = Ranking()
        """With two classes, how the scores rank the samples."""
        self._samples = self._found = 0

    def add(self, label: int, outputs: Mapping[str, np.ndarray], sample: str) -> None:
        """Judges one more sample.

        Raises:
            InputError: The output has no class of that number.
        """
        decision = np.asarray(outputs[self.output]).ravel()
        is_list = decision.size > 1 and decision.dtype.kind in "iu" and decision.dtype.itemsize > 1
        scores = self.output if decision.size > 1 else _scores_beside(self.output, outputs)
        if scores is not None and not is_list:
            self.classes = np.asarray(outputs[scores]).size
            if not 0 <= label < self.classes:
                raise InputError(
                    "the label is not a class of the model",
                    subject=sample,
                    expected=f"0 to {self.classes - 1}, the entries of output {scores!r}",
                    found=label,
                    hint="labels are numbers of classes, counted from 0 in the order of the model's output"
                    + ("; if yours run from 1, take 1 from each" if label == self.classes else ""),
                )
        answer: int | None
        if is_list:
            self.listed = decision.size
            answer = label if label in decision else None
        elif not decision.size:
            answer = None  # a list that follows the sample, such as that of what is found, may be empty
        elif decision.size > 1:
            answer = None if np.isnan(decision).any() else int(decision.argmax())
        elif _is_answer(decision):
            self.classes = TWO
            if label not in range(TWO):
                raise InputError(
                    "the label is not a class of the model",
                    subject=sample,
                    expected=f"0 or 1: output {self.output!r} is the probability of class 1",
                    found=label,
                    hint="a number to predict is not a label: leave it out, and judge by it with --metric",
                )
            answer = None if np.isnan(decision[0]) else int(decision[0] > CROSSING)
        else:
            answer = class_index(int(decision[0]), self._numbers)
        if self.classes == TWO and decision.size:
            self.ranking.add(label, np.asarray(outputs[scores or self.output]))
        found = answer == label
        self.answers[label, answer] += 1
        self._samples += 1
        self._found += found
        self.by_class[label] += found

    @property
    def accuracy(self) -> float:
        """Share of the samples whose label was found."""
        return self._found / self._samples


def class_output(outputs: Arrays, choice: ClassChoice | None = None) -> str | None:
    """Returns the output that tells a sample's class, or None if there is none: the first of these that exists.

    - the output that ``choice`` names;
    - a single integer that is called the label (:func:`is_label`), which is the model's own decision: the greatest of
      the scores beside it may be another class's, such as the distance from the farthest cluster;
    - the first output with a score for each class: floats along the only axis that is longer than one, of as many
      classes as there are if that is known, no state if there are other outputs, and no logits beside their softmax;
    - a single integer, the number of a class;
    - scores of 8-bit integers;
    - a list of TopK's;
    - a single probability, which says yes or no.

    Embeddings tell no class, nor do scores that TopK puts in order.
    """
    choice = choice or ClassChoice()
    if choice.output in outputs:
        return choice.output
    outputs = {name: each for name, each in outputs.items() if name not in choice.embeddings | choice.in_order}
    vectors = [name for name, array in outputs.items() if 1 < array.size == max(array.shape)]
    floats = [name for name in vectors if outputs[name].dtype.kind == "f"]
    floats = [name for name in floats if outputs[name].size == choice.classes] or floats
    floats = [name for name in floats if name not in choice.states] or floats
    floats = [name for name in floats if name not in choice.superseded] or floats
    numbers = [name for name, array in outputs.items() if array.dtype.kind in "iu" and array.size == 1]
    narrow = [name for name in vectors if outputs[name].dtype.kind in "iu" and outputs[name].dtype.itemsize == 1]
    listed = [name for name in vectors if name in choice.listed]
    answers = [name for name in outputs if name in choice.answers and _is_answer(outputs[name])]
    return next(iter([*filter(is_label, numbers), *floats, *numbers, *narrow, *listed, *answers]), None)


def _is_answer(array: np.ndarray) -> bool:
    """Whether an output may be one probability, that of yes."""
    return array.size == 1 and array.dtype.kind == "f"


def is_label(output: str) -> bool:
    """Whether an output's name says that it is the class: ``label`` or ``output_label``, as skl2onnx has it."""
    return output.casefold().endswith("label")


def class_index(number: int, numbers: Sequence[int]) -> int:
    """Returns the index of the class for which a model gives a number; -1 if ``numbers`` lacks it.

    Args:
        number: What the model gives.
        numbers: The model's numbers of the classes, in their order; empty if it counts from 0.
    """
    return numbers.index(number) if number in numbers else -1 if numbers else number


def _scores_beside(label: str, outputs: Mapping[str, np.ndarray]) -> str | None:
    """Returns the output with the scores beside a label, or None if there is none, or the output is no label."""
    others = {name: np.asarray(array) for name, array in outputs.items() if name != label}
    scores = class_output(others) if is_label(label) else None
    return None if scores is None or others[scores].size == 1 else scores
