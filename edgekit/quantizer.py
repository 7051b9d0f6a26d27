"""What a quantizer is: the contract between the host and the packages that quantize.

A quantizer is found by entry point (group ``edgekit.quantizers``). It gets the float model, samples, and a way to
build and execute candidates on the target, so that it can score what really ships; it knows no target by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from edgekit.comparison.acceptance.trade_off import curve_lines
from edgekit.comparison.custom_metric import Evaluation
from edgekit.data.samples import Samples
from edgekit.errors import InputError, RequirementError
from edgekit.model import Arrays, Model
from edgekit.progress import Step
from edgekit.target import Runner

CONTRACT_VERSION = 1
"""Raised when a quantizer has to be changed to work with this file."""
LEAST_SAVED = 0.05
"""The share of the float model's weights that a form has to save which is no more than smaller."""
TURNED_DOWN = "forms that hold the budget of the search were refused when they were built: the warnings tell why"
"""Why a model ships in float whose quantized forms hold the budget."""


def is_smaller(size: int, float_size: int, *, multiplies_integers: bool) -> bool:
    """Whether the size of a form speaks for it: any saving where it multiplies integers, else :data:`LEAST_SAVED`.

    Args:
        size: Bytes of its weights, scales and zero points.
        float_size: Bytes of the float model's weights.
        multiplies_integers: Whether layers of it do; otherwise it loses accuracy for its size alone.
    """
    most = float_size if multiplies_integers else float_size * (1 - LEAST_SAVED)
    return size < float_size and size <= most


@dataclass(frozen=True)
class Scheme:
    """A way to quantize that a quantizer has: what users name with ``--quantize``."""

    name: str
    description: str
    """What it does, in a few words: the command line's help shows it."""
    needs_samples: bool = False
    """Whether it needs samples to calibrate on."""
    has_integers: bool = True
    """Whether integers take the place of floats; a model in half precision is judged as one in floats."""


@dataclass(frozen=True)
class QuantizationRequest:
    """What to quantize, and by what it will be judged."""

    model: Model
    """The float model: shapes fixed, simplified."""
    scheme: str
    """One of :attr:`Quantizer.schemes`; ``none`` never gets here."""
    samples: Samples | None
    """Calibration samples; None where the user gave none (weights-only schemes need none)."""
    max_drop: float | None = None
    """The accuracy that may be lost (0.01 for ``1%``): as a share of the float model's value where there is an
    ``evaluation``, else in points of the metric; None for the metric's default."""
    evaluation: Evaluation | None = None
    """The project's own measure of quality, which ``max_drop`` then is of; None where it has none."""
    half_weights: bool = True
    """Whether weights that stay float may be stored in half precision; not where the user asked for float32. A scheme
    that says half precision by its name stands above it."""
    placement: Mapping[str, Any] = field(default_factory=dict)
    """What the target's runtime fuses and prefers, as the target's data file says it; empty: conservative defaults."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """What the built model may take; the most accurate one that does is wanted. None where any size will do."""
    execute: Callable[[Model], Runner] | None = None
    """Builds a candidate for the target and returns what executes it here, which may be :class:`Opened` in several
    settings; None where nothing can. Raises :class:`CandidateError`, as does what it returns."""
    latency_counts: bool = False
    """Whether the runner's latency on this machine says something about the device."""
    explain: bool = False
    """Whether the record tells as well what cannot be told without measuring more."""
    progress: Step | None = None
    choice: str | None = None
    """The candidate to ship whatever is faster, by its name in an earlier record's ``chosen``; None: the quantizer's
    own choice. Where it does not hold the budget, :class:`ChoiceError` says so."""
    executor: Executor | None = None
    """What evaluates candidates in other processes; ``execute``, ``evaluation`` and ``samples`` can be pickled then.
    None: in this process. Latency is measured in this process whatever this says."""


@dataclass(frozen=True)
class QuantizationResult:
    """The quantized model and how it came about."""

    model: Model
    record: Mapping[str, Any]
    """Plain data for the manifest: scheme used, layers quantized and left in float with the reasons, scores."""
    next_best: Callable[[], QuantizationResult | None] | None = None
    """What to ship in its place where it cannot be built or does not hold what is asked of the bundle, such as to be no
    slower; None, or a call that gives None or the float model itself, where nothing else is left. What was measured
    only then is in the record of what the call gives."""


class CandidateError(RequirementError):
    """A candidate cannot be built for the target, loaded or run; others may do."""


@dataclass(frozen=True)
class Opened:
    """A candidate that was built once, opened where it is timed and, when somebody asks, in the other settings.

    It has to be accurate in all of them. Itself it is a runner as it ships.
    """

    timed: Runner
    """Executes it in the setting that it is timed in."""
    open_shipped: Callable[[], Runner] | None = None
    """Opens it as the bundle will run, or raises :class:`CandidateError`; None where it is timed like that."""
    open_held: Callable[[], Sequence[Runner]] | None = None
    """Opens it with the other instruction sets that its devices have, or raises :class:`CandidateError`; None where
    there are none."""
    bytes: int | None = None
    """What a device needs to load it once; None where that is not known."""

    @cached_property
    def shipped(self) -> Runner:
        """Executes it as the bundle will run."""
        return self.timed if self.open_shipped is None else self.open_shipped()

    @cached_property
    def others(self) -> Sequence[Runner]:
        """Execute it in the settings that it is not timed in."""
        is_another = self.shipped.executed_by != self.timed.executed_by
        held = () if self.open_held is None else self.open_held()
        return (*([self.shipped] if is_another else []), *held)

    @property
    def settings(self) -> Sequence[Runner]:
        """Execute it in every setting, as it ships first; the last one is what is timed."""
        return (*self.others, self.timed)

    @property
    def has_others(self) -> bool:
        """Whether there may be other settings; opens nothing."""
        return self.open_shipped is not None or self.open_held is not None

    @property
    def executed_by(self) -> str:
        """What executes it as it ships."""
        return self.shipped.executed_by

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name, as it ships."""
        return self.shipped.run(feeds)


def timed_of(runner: Runner) -> Runner:
    """What is timed of a candidate, and judged first."""
    return runner.timed if isinstance(runner, Opened) else runner


def shipped_of(runner: Runner) -> Runner:
    """What executes a candidate as the bundle will run; opens it."""
    return runner.shipped if isinstance(runner, Opened) else runner


def others_of(runner: Runner) -> Sequence[Runner]:
    """What a candidate is judged by beside what is timed; opens it."""
    return runner.others if isinstance(runner, Opened) else ()


def has_others(runner: Runner) -> bool:
    """Whether a candidate may be judged by more than what is timed; opens nothing."""
    return isinstance(runner, Opened) and runner.has_others


class ChoiceError(InputError):
    """:attr:`QuantizationRequest.choice` is none of the candidates that hold the budget."""


class BudgetError(RequirementError):
    """No candidate holds the accuracy budget.

    Args:
        record: What was found: the ``curve`` of all candidates and the ``layers`` of one of them, plain data.
        max_drop: The budget, as a fraction.
    """

    def __init__(self, record: Mapping[str, Any], max_drop: float) -> None:
        super().__init__(
            "no candidate holds the accuracy budget" + "".join(f"\n  {line}" for line in curve_lines(record["curve"])),
            expected=f"at most {max_drop:.2%} lost",
            hint="allow more with --max-drop, or give more and more typical samples; "
            "`edgekit quantize --explain` tells what each layer adds",
        )
        self.record = record

    @property
    def warnings(self) -> Sequence[str]:
        """What is suspicious about the samples, which may be why."""
        return [*self.record.get("warnings", ())]

    def as_record(self) -> dict[str, Any]:
        """The error as plain data, with what was found."""
        return {**super().as_record(), **self.record}


def require_search_of_sizes(scheme: str, *, sampled: bool, smallest: bool, max_bytes: int | None = None) -> None:
    """Checks that a size that is asked for can be searched.

    Args:
        scheme: The scheme that is asked for.
        sampled: Whether there are samples.
        smallest: Whether the smallest model is asked for, rather than one of a size.
        max_bytes: The size that is asked for; None where none is.

    Raises:
        InputError: Sizes are searched by the scheme ``auto`` alone, and with samples; or both are asked for.
    """
    if smallest and max_bytes is not None:
        raise InputError(
            "does not go with --max-size",
            subject="--smallest",
            expected="the smallest model that holds --max-drop, or with --max-size the most accurate one of a size",
            found="both",
            hint="leave one of them out; the model of --max-size holds --max-drop too",
        )
    if scheme != "auto" or not sampled:
        raise InputError(
            "sizes are searched with samples, by the scheme auto",
            subject="--smallest" if smallest else "--max-size",
            expected="--data DIR, and no other scheme",
            found="no samples" if scheme == "auto" else scheme,
        )


class Quantizer(ABC):
    """Turns a float model into one with 8-bit (or narrower) weights and activations."""

    contract_version: ClassVar[int]
    """The version of this contract that it is written for: :data:`CONTRACT_VERSION` as its author found it."""
    name: ClassVar[str]

    @property
    @abstractmethod
    def schemes(self) -> Sequence[Scheme]:
        """What users may ask for; ``auto``, where it is among them, chooses between the others."""

    @abstractmethod
    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Quantize as requested.

        Raises:
            edgekit.errors.InputError: Samples are missing or do not fit the model.
            BudgetError: Nothing holds the accuracy budget.
        """
