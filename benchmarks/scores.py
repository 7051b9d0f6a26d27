"""Metrics of quantized models' answers, which the benchmarks of quantizers share.

A metric compares answers, one for each sample, with those of the float model. Shares are at most 1; `decibels` have no
upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from edgekit.comparison.boxes.detectors import recognised
from edgekit.comparison.boxes.matching import CONFIDENT, Boxes, overlap
from edgekit.model import ValueSpec

Outputs = Mapping[str, np.ndarray]
Answers = Sequence[Outputs]
"""The outputs of each sample, by name."""
Metric = Callable[[Answers, Answers, Sequence[int]], float]
"""Scores answers, given the float model's answers and the samples' labels, by the first output of floats."""


def first(answers: Answers) -> list[np.ndarray]:
    """The first output of floats in each answer."""
    return [next(array for array in outputs.values() if array.dtype.kind == "f") for outputs in answers]


def labels_found(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """The share of samples whose largest number is that of the label."""
    return float(np.mean([int(answer.argmax()) == label for answer, label in zip(first(found), labels, strict=True)]))


def decisions_kept(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """The share of positions, along all axes but the last, with the float model's largest class."""
    pairs = zip(first(found), first(exact), strict=True)
    return float(np.mean(np.concatenate([(a.argmax(-1) == b.argmax(-1)).reshape(-1) for a, b in pairs])))


def characters_kept(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """1 - edit distance / length, over the texts of all samples, decoded with CTC."""
    texts = [(decoded(a), decoded(b)) for a, b in zip(first(found), first(exact), strict=True)]
    return 1 - sum(edit_distance(a, b) for a, b in texts) / sum(len(b) for _, b in texts)


def explained(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """1 - power of the error / variance of the float model's output, for the worst output of floats.

    The variance is about the mean of all samples.
    """
    names = [name for name, array in exact[0].items() if array.dtype.kind == "f"]
    return min(1 - _ratio(*([{name: outputs[name]} for outputs in each] for each in (found, exact))) for name in names)


def decibels(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Variance of the float model's output over the power of the error, in dB."""
    error, variance = _powers(found, exact)
    return float(10 * np.log10(variance / error)) if error else float("inf")


def correlation(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Pearson's correlation of all numbers of the output over the samples."""
    a, b = (np.concatenate([answer.reshape(-1) for answer in first(each)]) for each in (found, exact))
    return float(np.corrcoef(a, b)[0, 1])


def ranks(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Spearman's rank correlation of the cosines between all pairs of samples."""
    orders = []
    for each in (found, exact):
        rows = np.stack([answer.reshape(-1).astype(np.float64) for answer in first(each)])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
        orders.append(np.argsort(np.argsort(cosines)))
    return float(np.corrcoef(*orders)[0, 1])


def boxes_kept(least: float) -> Metric:
    """2 · equal boxes / boxes of both models together; equal boxes have one class and overlap by at least ``least``."""

    def metric(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
        size = max(max(array.shape) for array in exact[0].values())
        detector = None
        for side in (640, 320, 224):  # possible input sizes, on which a detector's grids depend
            detector = detector or recognised(exact[:8], [ValueSpec("", "float32", (1, 3, side, side))])
        if detector is None:
            raise ValueError(f"no detector's outputs: {[*exact[0]]} of {size} numbers")
        both = counted = 0
        for a, b in zip(found, exact, strict=True):
            one, other = (_counting(detector.read(dict(outputs))) for outputs in (a, b))
            counted += len(one) + len(other)
            both += 2 * _pairs(one, other, least)
        return both / counted if counted else 1.0

    return metric


def _counting(boxes: Boxes) -> Boxes:
    return boxes.at(np.flatnonzero(boxes.scores >= CONFIDENT))


def _pairs(one: Boxes, other: Boxes, least: float) -> int:
    """How many boxes can be paired one to one, the largest overlap first."""
    overlaps = overlap(one.corners, other.corners)
    overlaps = np.where(one.classes[:, None] == other.classes[None], overlaps, 0.0)
    count = 0
    while overlaps.size and overlaps.max() >= least:
        row, column = np.unravel_index(int(overlaps.argmax()), overlaps.shape)
        overlaps[row], overlaps[:, column] = 0.0, 0.0
        count += 1
    return count


def decoded(answer: np.ndarray) -> list[int]:
    """The classes that a CTC decoder reads: repeated classes once, without the blank, which is class 0."""
    best = answer.reshape(-1, answer.shape[-1]).argmax(-1).tolist()
    return [one for before, one in pairwise([-1, *best]) if one and one != before]


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """Levenshtein's edit distance, by the table of Wagner and Fischer (1974), one row at a time."""
    row = list(range(len(other) + 1))
    for place, left in enumerate(one, 1):
        before, row[0] = row[0], place
        for at, right in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (left != right))
    return row[-1]


def _ratio(found: Answers, exact: Answers) -> float:
    error, variance = _powers(found, exact)
    return error / variance


def _powers(found: Answers, exact: Answers) -> tuple[float, float]:
    """Power of the error, and power of the float model's output about its mean."""
    a, b = (np.stack([answer.astype(np.float64) for answer in first(each)]) for each in (found, exact))
    return float(np.sum((a - b) ** 2)), float(np.sum((b - b.mean(0)) ** 2))


METRICS: dict[str, Metric] = {
    "labels": labels_found,
    "decisions": decisions_kept,
    "characters": characters_kept,
    "explained": explained,
    "decibels": decibels,
    "correlation": correlation,
    "ranks": ranks,
    "boxes at 0.5": boxes_kept(0.5),
    "boxes at 0.75": boxes_kept(0.75),
}
