"""How exactly a model determines its own outputs: how far they move when inputs and weights are rounded once more.

Inputs and weights are moved by half a unit in the last place on average, a few times. A correct execution rounds at
least as much: it may add in another order, or fuse operations that others compute in steps. How far the outputs move is
the model's conditioning, and no conversion can be asked for more (N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition, 2002, chapter 1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from edgekit.comparison.numbers.metrics import json_number
from edgekit.comparison.numbers.quantized_outputs import quantized_outputs
from edgekit.comparison.numbers.ranked import RankedRows
from edgekit.comparison.padding import Padding
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Samples
from edgekit.execution.float_activations import with_activations_in_floats
from edgekit.execution.recurrence import Original, reference_of, restart
from edgekit.execution.reference import NotRunnableError
from edgekit.execution.rounding import PERTURBATIONS, perturbed_inputs, perturbed_weights
from edgekit.model import Arrays, Model
from edgekit.progress import Step

LARGEST_BYTES = 1 << 30
"""In models with more bytes of weights only the inputs are moved: a second copy of the weights costs too much
memory."""

LARGEST_KEPT_BYTES = 1 << 27
"""With more bytes of weights each execution is opened again for other samples: all at once would take too much
memory."""

MOST_KNOWN = 16
"""For how many pairs of a model and samples the conditioning is kept: open dimensions have samples for each size."""


@dataclass(frozen=True)
class Conditioning:
    """How far executions of the original agree, for each output."""

    sqnr_db: Mapping[str, float] = field(default_factory=dict)
    """The least SQNR in dB on any sample between the original and another execution, for floating-point outputs."""
    pooled_db: Mapping[str, float] = field(default_factory=dict)
    """The least SQNR in dB over all samples between the original and another execution, for floats, and for pictures
    and quantized numbers of 8 bits."""
    mismatch: Mapping[str, float] = field(default_factory=dict)
    """The greatest share of unequal elements, for outputs other than floats."""
    lost_rows: float = 0.0
    lost_scores: float = 0.0
    """See :class:`edgekit.comparison.numbers.ranked.RankedAccuracy`."""

    def joined(self, other: Conditioning) -> Conditioning:
        """Returns the worse of the two for each output."""
        unequal = {*self.mismatch, *other.mismatch}
        return Conditioning(
            _least(self.sqnr_db, other.sqnr_db),
            _least(self.pooled_db, other.pooled_db),
            {name: max(self.mismatch.get(name, 0.0), other.mismatch.get(name, 0.0)) for name in unequal},
            max(self.lost_rows, other.lost_rows),
            max(self.lost_scores, other.lost_scores),
        )

    def as_record(self) -> dict[str, dict[str, float | str]]:
        """Plain data."""
        return {
            "sqnr_db": {name: json_number(value) for name, value in self.sqnr_db.items()},
            "mismatch": dict(self.mismatch),
        }


def conditioning(
    original: Model,
    samples: Samples,
    ranked: RankedRows | None = None,
    step: Step | None = None,
    padding: Padding | None = None,
    executions: Executions | None = None,
) -> Conditioning:
    """Returns how far executions of a model that differ by rounding alone are apart.

    One execution lets ONNX Runtime rewrite the graph; the others execute the graph node by node on moved inputs and
    weights. If an operator rounds activations to 8 bits inside, a further execution computes it in float32
    (:mod:`edgekit.execution.float_activations`).

    Args:
        original: The float model.
        samples: What to execute it on.
        ranked: How rows by falling score are matched; see :func:`edgekit.comparison.side_by_side.ranked_on`.
        step: Told how many samples of all executions are done.
        padding: Positions that are not compared.
        executions: The model's executions, which a caller with further samples keeps; None opens them.

    Raises:
        NotRunnableError: The model does not run on a sample.
    """
    executions = Executions(original) if executions is None else executions
    names = tuple(output.name for output in original.returned_outputs)
    quantized = quantized_outputs(original)
    reference = executions.reference()
    found = Conditioning()
    for number, execution in enumerate(executions.others):

        def report(_what: str, done: int, total: int, number: int = number) -> None:
            if step is not None:
                whole = len(executions.others) * total
                step("executing the original once more, sample", number * total + done, whole)

        try:
            agreed = _agreement(samples, reference, execution(), names, ranked, quantized, padding, report)
        except NotRunnableError:
            if execution not in executions.on_moved_weights:
                raise
            continue  # a size is computed from numbers that were moved
        found = found.joined(agreed)
    return found


_Execution = Callable[[], "Original | _Moved"]


class Executions:
    """Executions of a model that differ by rounding alone; each is opened when it is asked for.

    Args:
        original: The float model.
        keep: Whether each execution stays open for the next samples.
    """

    def __init__(self, original: Model, *, keep: bool = False) -> None:
        def opened_by(open_: _Execution) -> _Execution:
            return functools.cache(open_) if keep else open_

        in_floats = with_activations_in_floats(original)
        self.reference = opened_by(functools.partial(reference_of, original))
        """Opens the original, unchanged."""
        self.on_moved_weights = [opened_by(functools.partial(_moved, original, seed)) for seed in range(PERTURBATIONS)]
        self.others = [opened_by(functools.partial(reference_of, original, fast=True)), *self.on_moved_weights]
        """Open the executions that are compared with :attr:`reference`."""
        if in_floats is not original:
            self.others.append(opened_by(functools.partial(reference_of, in_floats)))


class KnownConditioning:
    """Keeps how far executions of an original agree, so that they run once for the same samples.

    Several forms of a model are compared with one original, each of them with several instruction sets, and with open
    dimensions at several sizes.
    """

    def __init__(self) -> None:
        self._found: list[tuple[Model, Samples, Conditioning]] = []
        self._executions: tuple[Model, Executions] | None = None

    def of(
        self,
        original: Model,
        samples: Samples,
        ranked: RankedRows | None = None,
        step: Step | None = None,
        padding: Padding | None = None,
    ) -> Conditioning:
        """Returns the :func:`conditioning`, computed anew only for other samples, or if ``ranked`` is given.

        Raises:
            NotRunnableError: The model does not run on a sample.
        """
        if ranked is not None:
            return conditioning(original, samples, ranked, step, padding, self._executions_of(original))
        for known, on, found in self._found:
            if known is original and on == samples:
                return found
        found = conditioning(original, samples, None, step, padding, self._executions_of(original))
        self._found = [*self._found[1 - MOST_KNOWN :], (original, samples, found)]
        return found

    def _executions_of(self, original: Model) -> Executions:
        if self._executions is None or self._executions[0] is not original:
            has_sizes = not all(spec.is_static for spec in original.inputs)
            kept = has_sizes and original.weight_bytes <= LARGEST_KEPT_BYTES
            self._executions = original, Executions(original, keep=kept)
        return self._executions[1]


def _moved(original: Model, seed: int) -> _Moved:
    moved = perturbed_weights(original, seed) if original.weight_bytes <= LARGEST_BYTES else original
    return _Moved(reference_of(moved), seed)


class _Moved:
    """Executes a model on inputs that are moved by rounding."""

    def __init__(self, executor: Original, seed: int) -> None:
        self._executor = executor
        self._seed = seed

    @property
    def executed_by(self) -> str:
        return self._executor.executed_by

    def restart(self) -> None:
        restart(self._executor)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        return self._executor.run(perturbed_inputs(dict(feeds), self._seed))


def _agreement(
    samples: Samples,
    reference: Original | _Moved,
    other: Original | _Moved,
    names: tuple[str, ...],
    ranked: RankedRows | None,
    quantized: Collection[str],
    padding: Padding | None,
    step: Step,
) -> Conditioning:
    rows = None if ranked is None else ranked.anew()
    outputs, _ = compare(samples, reference, other, names, step, ranked=rows, quantized=quantized, padding=padding)
    lost = None if rows is None else rows.result()
    return Conditioning(
        {output.name: output.worst_sample_db for output in outputs if output.worst_sample_db is not None},
        {
            output.name: pooled
            for output in outputs
            if (pooled := output.picture_db if output.sqnr_db is None else output.sqnr_db) is not None
        },
        {output.name: output.mismatch for output in outputs if output.sqnr_db is None},
        0.0 if lost is None else lost.lost_rows,
        0.0 if lost is None else lost.lost_scores,
    )


def _least(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: min(one.get(name, math.inf), other.get(name, math.inf)) for name in {*one, *other}}
