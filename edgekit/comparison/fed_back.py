"""Compares a sequence in which original and built model are each fed their own states.

Samples of a streaming model hold the states as the original had them, so that each tells of one step alone. What a
state carries from step to step shows only where both go on with their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from edgekit.comparison.metrics import Comparison, json_number
from edgekit.comparison.side_by_side import Executor
from edgekit.data.samples import Samples
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.progress import Step
from edgekit.target import Runner

MOST_STEPS = 128
"""The comparison takes as long again as that of so many samples."""


@dataclass(frozen=True)
class Sequel:
    """How near the built model is to the original after both went on with their own states."""

    states: Mapping[str, str]
    """Inputs, each with the output of the step before that it was fed."""
    steps: int
    worst: str
    """The output that is farthest from the original's, of those that are no states."""
    sqnr_db: float
    """Of that output, over all steps."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "states": dict(self.states),
            "steps": self.steps,
            "output": self.worst,
            "sqnr_db": json_number(self.sqnr_db),
        }

    @property
    def text(self) -> str:
        """The states and how many steps, in words."""
        fed = ", ".join(f"{name} by {output!r}" for name, output in self.states.items())
        return f"{self.steps} steps, {fed}"


def carried_states(inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec]) -> dict[str, str]:
    """The inputs that an app feeds with an output of the run before, each with that output.

    Those are floats of one fixed shape behind the first input and the first output, in their order, where as many
    inputs as outputs have that shape; the first two are the signal and what becomes of it.
    """
    found: dict[str, str] = {}
    given, returned = ([spec for spec in specs[1:] if _may_be_state(spec)] for specs in (inputs, outputs))
    for form in {(spec.dtype, spec.shape) for spec in given}:
        before, after = ([spec for spec in specs if (spec.dtype, spec.shape) == form] for specs in (given, returned))
        if len(before) == len(after):
            found |= {old.name: new.name for old, new in zip(before, after, strict=True)}
    return {spec.name: found[spec.name] for spec in given if spec.name in found}


def compare_fed_back(
    samples: Samples, reference: Executor, runner: Runner, model: Model, step: Step | None = None
) -> Sequel | None:
    """Executes the samples as the steps of one sequence, by the original and by what was built.

    Both begin with the states of the first sample, and go on with their own; all other inputs are the samples'.

    Args:
        samples: In the order of the sequence.
        reference: Executes the original.
        runner: Executes what was built.
        model: The original.
        step: Told of the steps that are done.

    Returns:
        None where there is no sequence: of a model that keeps its states itself, without states, that does not take its
        own outputs, or of one sample. A sequence ends where samples have states of another shape.
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
    comparison, steps = Comparison(tuple(numbers)), 0
    held: Arrays = {}
    own: Arrays = {}
    for sample in islice(samples, MOST_STEPS):
        if any(sample.feeds[name].shape != feeds[name].shape for name in states):
            break  # another sequence: one of another number of rows, say
        try:
            expected = reference.run({**sample.feeds, **held})
        except NotRunnableError:  # what has a state's shape is none: the original does not take it
            return None
        found = runner.run({**sample.feeds, **own})
        comparison.add(expected, found)
        held, own = ({name: outs[output] for name, output in states.items()} for outs in (expected, found))
        steps += 1
        if step is not None:
            step("step with its own states", steps, min(len(samples), MOST_STEPS))
    if steps < 2:
        return None
    figures = {result.name: result.sqnr_db for result in comparison.results() if result.sqnr_db is not None}
    if not figures:
        return None
    worst = min(figures, key=lambda name: figures[name])
    return Sequel(states, steps, worst, figures[worst])


def _as_they_are(specs: Sequence[ValueSpec], arrays: Mapping[str, np.ndarray]) -> list[ValueSpec]:
    """The specifications with the shapes of arrays; without what is no tensor."""
    given = ((one, arrays.get(one.name)) for one in specs)
    return [ValueSpec(one.name, one.dtype, array.shape) for one, array in given if isinstance(array, np.ndarray)]


def _may_be_state(spec: ValueSpec) -> bool:
    return bool(spec.shape) and spec.is_static and spec.dtype.startswith("float")
