"""How near a candidate is to the float model, and how fast."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.metrics import LabelCount, class_output, decibels
from edgekit_quantize.calibration.statistics import Reference
from edgekit_quantize.graph import is_standard

Run = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]

LABELS = "accuracy"
AGREEMENT = "agreement"
EXPLAINED = "explained"

ROUNDS = 4
ROUND_S = 0.03
"""Rounds in which two models are timed in turns, and how long each round takes."""
QUANTILE = 0.25
"""The share of quick runs that stands for a model's latency: the slow ones tell of a busy machine."""


@dataclass(frozen=True)
class Score:
    """How a candidate did on the kept samples."""

    metric: str
    """``accuracy``: labels found; ``agreement``: positions of the first output with the float model's largest class;
    ``explained``: 1 - power of the error / power of the float model's output, for the worst output."""
    value: float
    """0 to 1."""
    reference: float
    """What the float model scores."""
    sqnr_db: float
    """Power of the float model's output over that of the error, in decibels, for the worst output."""

    @property
    def drop(self) -> float:
        """What was lost."""
        return self.reference - self.value


def decides(graph: ir.Graph) -> bool:
    """Whether the first output is a choice between classes: Softmax, or what a Gemm, or a MatMul with a bias, gives."""
    node = graph.outputs[0].producer() if graph.outputs else None
    while node is not None and is_standard(node, "Identity", "Reshape", "Squeeze", "Flatten", "DequantizeLinear"):
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    if node is None or not _has_classes(graph.outputs[0]):
        return False
    if is_standard(node, "Softmax", "LogSoftmax", "Gemm"):
        return True
    operands = [value.producer() for value in node.inputs if value is not None]
    return is_standard(node, "Add") and any(n is not None and is_standard(n, "MatMul", "Gemm") for n in operands)


def _has_classes(value: ir.Value) -> bool:
    shape = value.shape
    return shape is None or (len(shape) >= 1 and shape[-1] != 1)


def score(run: Run, references: Sequence[Reference], *, classes: bool) -> Score:
    """Run a candidate over the kept samples.

    Args:
        run: Executes the candidate.
        references: The samples with the float model's answers; at least one.
        classes: Whether the first output decides between classes (:func:`decides`).
    """
    power: dict[str, list[float]] = {}
    same = positions = 0
    counts: tuple[LabelCount, LabelCount] | None = None
    for reference in references:
        outputs = run(reference.feeds)
        for name, expected in reference.outputs.items():
            if expected.dtype.kind == "f":
                wide = expected.astype(np.float64)
                signal_and_noise = power.setdefault(name, [0.0, 0.0])
                signal_and_noise[0] += float(np.sum(wide**2))
                signal_and_noise[1] += float(np.sum((outputs[name].astype(np.float64) - wide) ** 2))
        if classes:
            first = next(iter(reference.outputs))
            agree = reference.outputs[first].argmax(-1) == np.asarray(outputs[first]).argmax(-1)
            same += int(agree.sum())
            positions += agree.size
        if reference.label is not None:
            output = class_output(dict(reference.outputs))
            if output is not None:
                counts = counts or (LabelCount(output), LabelCount(output))
                counts[0].add(reference.label, reference.outputs, "calibration sample")
                counts[1].add(reference.label, outputs, "calibration sample")
    sqnr = min((decibels(signal, noise) for signal, noise in power.values()), default=math.inf)
    if counts is not None:
        return Score(LABELS, counts[1].accuracy, counts[0].accuracy, sqnr)
    if classes:
        return Score(AGREEMENT, same / positions, 1.0, sqnr)
    return Score(EXPLAINED, 1 - 10 ** (-sqnr / 10), 1.0, sqnr)


def latencies(*calls: Callable[[], object]) -> list[float]:
    """Milliseconds of every call, timed in turns so that a busy machine touches all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for call, seconds in zip(calls, times, strict=True):
            call()
            end = time.perf_counter() + ROUND_S
            now = 0.0
            while now < end:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                seconds.append(now - start)
    return [1e3 * float(np.quantile(seconds, QUANTILE)) for seconds in times]
