"""Compares a sequence in which original and built model are each fed their own states.

Samples of a streaming model hold the states as the original had them, so that each tests one step alone. Errors that a
state carries from step to step show only if both models are fed their own states, as in an app.

A sequence is judged only if the samples show that they are one: they hold the states that the original gives. Each
output has to reach 10 dB over all steps, or its decisions have to stay; less is asked than of a single step, since the
errors of the steps add up. Nothing is asked if the original itself departs about as far when its states are moved by
one unit in the last place in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from edgekit.comparison.acceptance.accuracy import LEAST_DB, SELF_MARGIN_DB, Accuracy
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.floors import WEAKEST_BELOW_DB, Floors, Kind
from edgekit.comparison.numbers.metrics import Comparison, decibels, json_number
from edgekit.comparison.side_by_side import Executor
from edgekit.data.samples import Sample, Samples
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.progress import Step
from edgekit.target import Runner

MOST_STEPS = 1024
"""The most steps that are compared; the comparison takes as long as that of as many samples."""
FEWEST_STEPS = 64
"""With fewer steps, the first and the last quarter show no trend."""
SAFE_DB = 40.0
"""The SQNR in dB above which a growing error is not reported: an error of a hundredth is far from any floor."""
RECORDED_DB = 20.0
"""The SQNR in dB with which the states in the samples count as those that the original gives."""

_NO_SEQUENCE = (
    "; the states in the samples are not those that the original gives from step to step: unless the samples are "
    "the steps of one sequence, in order, this figure says little"
)


@dataclass(frozen=True)
class FedBackAccuracy:
    """How near the built model is to the original after both went on with their own states."""

    states: Mapping[str, str]
    """Inputs, each with the output of the step before that it was fed."""
    steps: int
    worst: str
    """The output that is farthest from the original's, of those that are no states."""
    sqnr_db: float
    """The SQNR of :attr:`worst` in dB, over all steps."""
    recorded: bool
    """Whether the states in the samples are those that the original gives: they are the steps of a sequence."""
    early_db: float | None = None
    """The SQNR of :attr:`worst` in dB, over the first quarter of the steps; None with fewer than
    :data:`FEWEST_STEPS`."""
    late_db: float | None = None
    """The SQNR of :attr:`worst` in dB, over the last quarter of the steps; None with fewer than
    :data:`FEWEST_STEPS`."""
    flaws: tuple[str, ...] = ()
    """The floors that are missed, if the samples are a sequence that the original determines; else empty."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        quarters = {"early_db": self.early_db, "late_db": self.late_db}
        return {
            "states": dict(self.states),
            "steps": self.steps,
            "output": self.worst,
            "sqnr_db": json_number(self.sqnr_db),
            "recorded": self.recorded,
            **{name: json_number(value) for name, value in quarters.items() if value is not None},
        }

    @property
    def text(self) -> str:
        """The states and how many steps, in words."""
        fed = ", ".join(f"{name} by {output!r}" for name, output in self.states.items())
        return f"{self.steps} steps, {fed}"

    def warnings(self, floors: Floors) -> list[str]:
        """Returns warnings of a departure from the original, and of one that grows from step to step.

        Args:
            floors: What a single step has to reach.
        """
        warnings = []
        if self.sqnr_db < floors.sqnr_db:
            warnings.append(
                f"fed its own states, output {self.worst!r} differs from the original's: SQNR {self.sqnr_db:.1f} dB "
                f"over {self.text} (a single step has to reach {floors.sqnr_db:.0f} dB)"
                + ("" if self.recorded else _NO_SEQUENCE)
            )
        early, late = self.early_db, self.late_db
        if early is not None and late is not None and late < early - SELF_MARGIN_DB and late < SAFE_DB:
            warnings.append(
                f"fed its own states, output {self.worst!r} differs more from step to step: SQNR {early:.1f} dB over "
                f"the first quarter of {self.steps} steps, {late:.1f} dB over the last; in longer sequences it "
                "differs even more, unless the app resets the states"
            )
        return warnings


def carried_states(inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec]) -> dict[str, str]:
    """Returns the inputs that an app feeds with an output of the run before, each with that output.

    States are floats of a fixed shape that as many inputs as outputs have, paired in their order. The first input and
    the first output are left out: they are the signal and what becomes of it.
    """
    found: dict[str, str] = {}
    given, returned = ([spec for spec in specs[1:] if _may_be_state(spec)] for specs in (inputs, outputs))
    for form in {(spec.dtype, spec.shape) for spec in given}:
        before, after = ([spec for spec in specs if (spec.dtype, spec.shape) == form] for specs in (given, returned))
        if len(before) == len(after):
            found |= {old.name: new.name for old, new in zip(before, after, strict=True)}
    return {spec.name: found[spec.name] for spec in given if spec.name in found}


def compare_fed_back(
    samples: Samples,
    reference: Executor,
    runner: Runner,
    model: Model,
    decisions: Mapping[str, Decision | None],
    floors: Floors,
    step: Step | None = None,
) -> FedBackAccuracy | None:
    """Executes the samples as the steps of one sequence, by the original and by what was built.

    Both begin with the states of the first sample, and go on with their own; all other inputs are the samples'. Where a
    sample has the states of the first one again, another sequence begins.

    Args:
        samples: In the order of the sequence.
        reference: Executes the original.
        runner: Executes what was built.
        model: The original.
        decisions: What counts as a decision in its outputs; see :mod:`edgekit.comparison.decisions.from_graph`.
        floors: What a single step has to reach.
        step: Told of the steps that are done.

    Returns:
        How near the built model stays, or None if there is no sequence: the model keeps its states itself, has no
        states or does not take its own outputs, or there is one sample. A sequence ends before the first sample whose
        states have another shape.
    """
    if model.states or len(model.inputs) < 2 or len(samples) < 2:
        return None
    feeds = next(iter(samples)).feeds
    first = reference.run(feeds)  # the file may leave shapes open
    inputs, outputs = _as_they_are(model.inputs, feeds), _as_they_are(model.outputs, first)
    states = carried_states(inputs, outputs)
    numbers = [one.name for one in outputs if one.dtype.startswith("float") and one.name not in states.values()]
    if not states or not numbers:
        return None
    loop = _Loop(states, tuple(numbers), decisions, samples)
    try:
        loop.run(reference, runner.run, step)
    except NotRunnableError:  # a value with a state's shape is no state: the original does not take it
        return None
    sequel = loop.result()
    if sequel is None or not sequel.recorded:
        return sequel
    flaws = loop.shortfalls(floors)
    if flaws and not _determines(states, numbers, decisions, samples, reference):
        flaws = ()
    return replace(sequel, flaws=tuple(f"fed its own states over {sequel.text}, {flaw}" for flaw in flaws))


def _determines(
    states: Mapping[str, str],
    numbers: Sequence[str],
    decisions: Mapping[str, Decision | None],
    samples: Samples,
    reference: Executor,
) -> bool:
    """Whether the original stays near itself if its states move by one unit in the last place in each step."""
    own = _Loop(states, tuple(numbers), decisions, samples)

    def moved(feeds: Arrays) -> Arrays:
        return reference.run(
            {**feeds, **{name: np.nextafter(feeds[name], feeds[name].dtype.type(np.inf)) for name in states}}
        )

    own.run(reference, moved)
    found = own.result()
    return found is not None and found.sqnr_db >= LEAST_DB + SELF_MARGIN_DB


class _Loop:
    """One run through the samples, the original and another model each with its own states."""

    def __init__(
        self,
        states: Mapping[str, str],
        numbers: tuple[str, ...],
        decisions: Mapping[str, Decision | None],
        samples: Samples,
    ) -> None:
        self._states, self._numbers, self._samples = states, numbers, samples
        self._whole = Comparison(numbers, decisions)
        self._length = sum(1 for _ in self._sequence())
        quarter = self._length // 4 if self._length >= FEWEST_STEPS else 0
        self._quarters = [
            (steps, Comparison(numbers)) for steps in (range(quarter), range(self._length - quarter, self._length))
        ]
        self._signal = self._noise = 0.0
        self._steps = 0

    def run(self, reference: Executor, other: Callable[[Arrays], Arrays], step: Step | None = None) -> None:
        """Executes all steps."""
        starts = self._starts()
        held: Arrays = {}
        own: Arrays = {}
        for number, sample in enumerate(self._sequence()):
            if number in starts:
                held, own = {}, {}
            self._note_recorded(sample, held)
            expected, found = reference.run({**sample.feeds, **held}), other({**sample.feeds, **own})
            self._whole.add(expected, found)
            for steps, comparison in self._quarters:
                if number in steps:
                    comparison.add(expected, found)
            held, own = ({name: outs[output] for name, output in self._states.items()} for outs in (expected, found))
            self._steps += 1
            if step is not None:
                step("step with its own states", self._steps, self._length)

    def result(self) -> FedBackAccuracy | None:
        """Returns what was found, or None with fewer than two steps or without an SQNR."""
        figures = (
            {each.name: each.sqnr_db for each in self._whole.results() if each.sqnr_db is not None}
            if self._steps
            else {}
        )
        if self._steps < 2 or not figures:
            return None
        worst = min(figures, key=lambda name: figures[name])
        early, late = (_sqnr_of(worst, comparison) if steps else None for steps, comparison in self._quarters)
        recorded = self._signal > 0 and decibels(self._signal, self._noise) >= RECORDED_DB
        return FedBackAccuracy(self._states, self._steps, worst, figures[worst], recorded, early, late)

    def shortfalls(self, floors: Floors) -> tuple[str, ...]:
        """Returns the floors that the outputs miss over all steps."""
        asked = floors.sqnr_db - WEAKEST_BELOW_DB if floors.asked else LEAST_DB
        usual = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
        least = replace(usual, sqnr_db=asked, weakest_db=-math.inf, asked=floors.asked)
        return tuple(Accuracy("", "", False, self._steps, least, self._whole.results(), None).shortfalls())

    def _sequence(self) -> Iterator[Sample]:
        """Yields the samples before the first one whose states have another shape, such as another number of rows."""
        shapes: list[tuple[int, ...]] = []
        for sample in islice(self._samples, MOST_STEPS):
            found = [sample.feeds[name].shape for name in self._states]
            shapes = shapes or found
            if found != shapes:
                return
            yield sample

    def _starts(self) -> frozenset[int]:
        """Returns where sequences begin: the samples whose states equal the first one's, unless most samples have them.

        If most samples have them, no states were recorded, and all samples are one sequence.
        """
        first = next(self._sequence()).feeds
        same = [
            number
            for number, sample in enumerate(self._sequence())
            if all(np.array_equal(sample.feeds[name], first[name]) for name in self._states)
        ]
        return frozenset(same if 2 * len(same) <= self._length else same[:1])

    def _note_recorded(self, sample: Sample, held: Arrays) -> None:
        for name, state in held.items():
            self._signal += float(np.sum(np.square(state.astype(np.float64))))
            self._noise += float(np.sum(np.square(sample.feeds[name].astype(np.float64) - state)))


def _sqnr_of(output: str, comparison: Comparison) -> float | None:
    return next(result.sqnr_db for result in comparison.results() if result.name == output)


def _as_they_are(specs: Sequence[ValueSpec], arrays: Mapping[str, np.ndarray]) -> list[ValueSpec]:
    """Returns the specifications with the shapes of the arrays, without values that are no tensors."""
    given = ((one, arrays.get(one.name)) for one in specs)
    return [ValueSpec(one.name, one.dtype, array.shape) for one, array in given if isinstance(array, np.ndarray)]


def _may_be_state(spec: ValueSpec) -> bool:
    return bool(spec.shape) and spec.is_static and spec.dtype.startswith("float")
