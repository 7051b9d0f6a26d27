"""What a quantizer is: the contract between the host and the packages that quantize.

A quantizer is found by entry point (group ``edgekit.quantizers``). It gets the float model, samples, and a way to
build and execute candidates on the target, so that it can score what really ships; it knows no target by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
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
"""Increased whenever existing quantizers have to be changed to work with this file."""
LEAST_SAVED = 0.05
"""Least share of the float model's weight bytes that a form has to save if it does not multiply integers."""
TURNED_DOWN = (
    "quantized forms held the budget in the search, but were refused when they were built: the warnings say why"
)
"""Why a model ships in float although quantized forms hold the budget."""


def is_smaller(size: int, float_size: int, *, multiplies_integers: bool) -> bool:
    """Whether a form saves enough to prefer it to float: anything if it multiplies integers, else LEAST_SAVED.

    Args:
        size: Bytes of the form's weights, scales and zero points.
        float_size: Bytes of the float model's weights.
        multiplies_integers: Whether some of the form's layers multiply integers; if not, it is smaller and no faster,
            and has to save :data:`LEAST_SAVED` for the accuracy that it loses.
    """
    most = float_size if multiplies_integers else float_size * (1 - LEAST_SAVED)
    return size < float_size and size <= most


@dataclass(frozen=True)
class Scheme:
    """A way to quantize that a quantizer has: what users name with ``--quantize``."""

    name: str
    description: str
    """What the scheme does, in a few words: the command line's help shows it."""
    needs_samples: bool = False
    """Whether the scheme needs samples to calibrate on."""
    has_integers: bool = True
    """Whether the scheme replaces floats by integers; if not, as with half precision, the model is judged as float."""


@dataclass(frozen=True)
class QuantizationRequest:
    """What to quantize, and how the result will be judged."""

    model: Model
    """The float model: shapes fixed, simplified."""
    scheme: str
    """One of :attr:`Quantizer.schemes`; never ``none``."""
    samples: Samples | None
    """Calibration samples; None if the user gave none (weights-only schemes need none)."""
    max_drop: float | None = None
    """The most accuracy that may be lost (0.01 for ``1%``): as a share of the float model's value if there is an
    ``evaluation``, else in points of the metric; None for the metric's default."""
    evaluation: Evaluation | None = None
    """The project's own measure of quality, to which ``max_drop`` then applies; None if the project has none."""
    half_weights: bool = True
    """Whether weights that stay float may be stored in half precision; False if the user asked for float32. A scheme
    whose name says half precision ignores it."""
    placement: Mapping[str, Any] = field(default_factory=dict)
    """What the target's runtime fuses and prefers, from the target's data file; empty: conservative defaults."""
    smallest: bool = False
    """Whether the smallest model that holds the budget is wanted, rather than the fastest."""
    max_bytes: int | None = None
    """Largest size of the built model: the most accurate model of at most this size is wanted. None for any size."""
    execute: Callable[[Model], Runner] | None = None
    """Builds a candidate for the target and returns a runner for it on this machine, which may be an :class:`Opened`
    with several settings; None if nothing here can execute it. Both the call and the runner raise
    :class:`CandidateError`."""
    latency_counts: bool = False
    """Whether the runner's latency on this machine says something about the device."""
    explain: bool = False
    """Whether the record also holds figures that take additional measurements."""
    progress: Step | None = None
    choice: str | None = None
    """The candidate to ship even if another one is faster, by its name in an earlier record's ``chosen``; None: the
    quantizer chooses. If the candidate does not hold the budget, :class:`ChoiceError` is raised."""
    executor: Executor | None = None
    """Evaluates candidates in other processes; ``execute``, ``evaluation`` and ``samples`` can then be pickled. None:
    candidates are evaluated in this process. Latency is always measured in this process."""


@dataclass(frozen=True)
class QuantizationResult:
    """The quantized model and how it came about."""

    model: Model
    record: Mapping[str, Any]
    """Plain data for the manifest: scheme used, layers quantized and left in float with the reasons, scores."""
    next_best: Callable[[], QuantizationResult | None] | None = None
    """Returns the next result to try if this one cannot be built or does not meet what is asked of the bundle, such as
    being no slower. If no candidate is left, this is None, or the call returns None or the float model itself. What the
    call measures is in the record of the result that it returns."""


class CandidateError(RequirementError):
    """A candidate cannot be built for the target, loaded or run; other candidates may work."""


@dataclass(frozen=True)
class Opened:
    """A candidate that was built once and is opened in the setting that is timed; on demand, in the other settings.

    The candidate has to be accurate in all settings. As a runner, this object executes it as it ships.
    """

    timed: Runner
    """Executes the candidate in the setting that is timed."""
    open_shipped: Callable[[], Runner] | None = None
    """Opens the candidate as the bundle will run it, or raises :class:`CandidateError`; None if this is the setting
    that is timed."""
    open_held: Callable[[], Sequence[Runner]] | None = None
    """Opens the candidate with the other instruction sets that its devices have, or raises :class:`CandidateError`;
    None if there are none."""
    bytes: int | None = None
    """Bytes that a device needs to load the candidate once; None if unknown."""

    @cached_property
    def shipped(self) -> Runner:
        """Executes the candidate as the bundle will run it."""
        return self.timed if self.open_shipped is None else self.open_shipped()

    @cached_property
    def others(self) -> Sequence[Runner]:
        """The runners in the settings that are not timed, opened at the same time."""
        with ThreadPoolExecutor(1) as thread:
            held = None if self.open_held is None else thread.submit(self.open_held)
            is_another = self.shipped.executed_by != self.timed.executed_by
        return (*([self.shipped] if is_another else []), *(() if held is None else held.result()))

    @property
    def settings(self) -> Sequence[Runner]:
        """The runners in every setting; the last one is the one that is timed."""
        return (*self.others, self.timed)

    @property
    def has_others(self) -> bool:
        """Whether there may be settings that are not timed; opens nothing."""
        return self.open_shipped is not None or self.open_held is not None

    @property
    def executed_by(self) -> str:
        """What executes the candidate as it ships."""
        return self.shipped.executed_by

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name, as it ships."""
        return self.shipped.run(feeds)


def timed_of(runner: Runner) -> Runner:
    """The runner of a candidate that is timed, and judged first."""
    return runner.timed if isinstance(runner, Opened) else runner


def shipped_of(runner: Runner) -> Runner:
    """The runner that executes a candidate as the bundle will run it; opens it."""
    return runner.shipped if isinstance(runner, Opened) else runner


def others_of(runner: Runner) -> Sequence[Runner]:
    """The runners by which a candidate is judged in addition to the timed one; opens them."""
    return runner.others if isinstance(runner, Opened) else ()


def has_others(runner: Runner) -> bool:
    """Whether a candidate may be judged by more runners than the timed one; opens nothing."""
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
            hint="allow more with --max-drop, or give more samples that are like real data; `edgekit quantize "
            "--explain` shows the error that each layer adds",
        )
        self.record = record

    @property
    def warnings(self) -> Sequence[str]:
        """What is suspicious about the samples, which may be why no candidate holds the budget."""
        return [*self.record.get("warnings", ())]

    def as_record(self) -> dict[str, Any]:
        """The error as plain data, with what was found."""
        return {**super().as_record(), **self.record}


def require_search_of_sizes(scheme: str, *, sampled: bool, smallest: bool, max_bytes: int | None = None) -> None:
    """Checks that the quantizer can search for the smallest model, or for a model of a largest size.

    Args:
        scheme: The requested scheme.
        sampled: Whether there are samples.
        smallest: Whether the smallest model is requested.
        max_bytes: The requested largest size; None if there is none.

    Raises:
        InputError: The scheme is not ``auto``, there are no samples, or both searches are requested.
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
    """The value of :data:`CONTRACT_VERSION` for which the quantizer was written, as a literal number."""
    name: ClassVar[str]

    @property
    @abstractmethod
    def schemes(self) -> Sequence[Scheme]:
        """The schemes that users may choose; ``auto``, if it is among them, chooses between the others."""

    @abstractmethod
    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Quantize as requested.

        Raises:
            edgekit.errors.InputError: Samples are missing or do not fit the model.
            BudgetError: No candidate holds the accuracy budget.
        """
