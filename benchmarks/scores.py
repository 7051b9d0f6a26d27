"""What is left of a model's answers, by metrics that the benchmarks of quantizers share.

A metric compares answers, one for each sample, with those of the float model. Shares end at 1; `decibels` do not end.
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
"""Scores answers beside the float model's and the samples' labels; the first output of floats counts."""


def first(answers: Answers) -> list[np.ndarray]:
    """The first output of each that holds floats."""
    return [next(array for array in outputs.values() if array.dtype.kind == "f") for outputs in answers]


def labels_found(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """The share of the labels that the largest number is for."""
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
    """1 - power of the error / variance of the float model's output, whose mean is that of all samples.

    Of the worst output of floats.
    """
    names = [name for name, array in exact[0].items() if array.dtype.kind == "f"]
    return min(1 - _ratio(*([{name: outputs[name]} for outputs in each] for each in (found, exact))) for name in names)


def decibels(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Variance of the float model's output over the power of the error."""
    error, variance = _powers(found, exact)
    return float(10 * np.log10(variance / error)) if error else float("inf")


def correlation(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Pearson's, of all numbers of the output over the samples."""
    a, b = (np.concatenate([answer.reshape(-1) for answer in first(each)]) for each in (found, exact))
    return float(np.corrcoef(a, b)[0, 1])


def ranks(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
    """Spearman's, of the cosines between all pairs of samples."""
    orders = []
    for each in (found, exact):
        rows = np.stack([answer.reshape(-1).astype(np.float64) for answer in first(each)])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
        orders.append(np.argsort(np.argsort(cosines)))
    return float(np.corrcoef(*orders)[0, 1])


def boxes_kept(least: float) -> Metric:
    """2 · boxes that both find / boxes that each finds: those of the same class that overlap by ``least`` or more."""

    def metric(found: Answers, exact: Answers, labels: Sequence[int]) -> float:
        size = max(max(array.shape) for array in exact[0].values())
        detector = None
        for side in (640, 320, 224):  # what the grids of a detector are counted from
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
    """How many boxes have a partner of their own, the largest overlap first."""
    overlaps = overlap(one.corners, other.corners)
    overlaps = np.where(one.classes[:, None] == other.classes[None], overlaps, 0.0)
    count = 0
    while overlaps.size and overlaps.max() >= least:
        row, column = np.unravel_index(int(overlaps.argmax()), overlaps.shape)
        overlaps[row], overlaps[:, column] = 0.0, 0.0
        count += 1
    return count


def decoded(answer: np.ndarray) -> list[int]:
    """What a CTC decoder reads: repeated classes once, without the blank, class 0."""
    best = answer.reshape(-1, answer.shape[-1]).argmax(-1).tolist()
    return [one for before, one in pairwise([-1, *best]) if one and one != before]


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """Levenshtein's, by the table of Wagner and Fischer (1974), a row at a time."""
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
    """Power of the error, and of what the float model's output differs from its mean."""
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
