"""Which operations of a float16 program have to stay in float32: ``--precision auto``.

The float32 program is executed in the reference runtime, operation by operation, on example inputs. An operation whose
inputs or results leave float16's range stays in float32. So do operations that lose too much when their inputs and
results are rounded to float16 (differences of nearly equal numbers, reciprocals of tiny ones), together with the
operations that feed them, since rounding on the way in is what hurts there. How much is too much is found by trial:
from the most lenient choice on, the program is built and executed until its outputs are near enough to the float32
program's. Where that does not help, the noise that parts of the program add to its outputs is measured, and the parts
that add the most are divided until single operations are found; these stay in float32. Where no single operation is to
blame, the noise of many adds up; then the end of the program stays in float32, as short an end as will do, so that what
computes in float16 remains one piece.

The whole program stays in float32 in three cases. The sizes of its outputs depend on what it computes, and there are
only random inputs to compare on. Its outputs change just as much when the inputs change in their last bits. Or the
sizes of its outputs depend on what it computes, all thresholds change them on the examples, and a choice that keeps
them was found before on fewer of these examples: it kept them on those examples only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.comparison.numbers.metrics import QUIET_SAMPLE, OutputComparison, decibels
from edgekit.progress import Step as Progress
from edgekit_mlprogram.operation_ranges import NOT_REPEATABLE, OperationRange, halved, study
from edgekit_mlprogram.trial_inputs import Arrays, TrialInputs
from edgekit_mlprogram.values_before_choices import ValuesBeforeChoices
from edgekit_mlruntime.executor import Observer, Step
from edgekit_mlruntime.runner import Runner, load

FLOOR_DB = 27.0
"""Signal-to-noise ratio that the outputs have to reach on the examples, in dB: what verification asks of a float16
program (20 dB), and a margin for inputs other than the examples."""
TRIALS = ((-math.inf, 0), (20.0, 1), (30.0, 2), (40.0, 3), (50.0, 4), (60.0, 6))
"""Tried in turn: the local signal-to-noise ratio in dB below which an operation stays in float32, and how many
operations upstream of it stay there too."""
PARTS = 8
"""Number of parts into which the program is divided first to measure their noise."""
MOST_MEASUREMENTS = 40
"""How many parts are measured at most."""
SHARE_OF_NOISE = 0.5
"""Noise that all parts in float16 together may add, as a share of the noise that the floor allows."""
VANISHING = 1e-3
"""An operation makes numbers vanish if float16 rounds more than this share of its nonzero results to zero."""
DOWNSTREAM = 2
"""Number of steps after vanishing numbers whose operations stay in float32, too, until something is added to them."""
RATIOS = frozenset({"inverse", "log", "rsqrt"})
"""Operations whose result depends on the relative error of a small number."""
MOST_KEPT = 0.8
"""Largest share of the operations that are kept in float32 one by one."""
RESOLUTION = 8
"""The length of the end that stays in float32 is found to within one part in RESOLUTION of the program."""
TOLD_EVERY = 16
"""Number of operations of a run between two signs of progress; a single step of a long loop is too short for one."""
NUDGE = 2.0**-22
"""Relative change of the inputs that shows how far rounding alone moves the outputs: two of float32's last places."""


@dataclass(frozen=True)
class Choice:
    """The operations that stay in float32, and what that gives."""

    kept: frozenset[str]
    """Names of the operations; empty if the whole program computes in float16, or if no operation was looked at."""
    everything: bool
    """Whether no mixture was near enough, so that the whole program stays in float32."""
    worst_db: float
    """Signal-to-noise ratio of the worst output against the float32 program, in dB."""
    total: int
    """How many operations the program has."""
    by_decisions: bool = False
    """Whether it keeps decisions about the sizes of outputs that all thresholds changed on the examples."""


def must_stay(ranges: Mapping[str, OperationRange], threshold_db: float, depth: int) -> frozenset[str]:
    """The operations that stay in float32 at a threshold, with those up to ``depth`` steps before them."""
    kept = {name for name, found in ranges.items() if found.local_db < threshold_db}
    front = kept
    for _ in range(depth):
        front = set[str]().union(*(ranges[name].producers for name in front)) - kept
        kept = kept | front
    overflowing = {name for name, found in ranges.items() if found.may_overflow}
    return frozenset(kept | overflowing) | of_vanishing_magnitudes(ranges)


def of_vanishing_magnitudes(ranges: Mapping[str, OperationRange]) -> frozenset[str]:
    """Returns the :data:`RATIOS` of numbers that vanish in float16, and the operations that make these numbers.

    In a spectrum the squares of quiet frequencies are negligible beside those of loud ones, but their logarithms make
    up half of the picture: no operation's own signal-to-noise ratio shows the loss. The operations that make the
    numbers are followed back to where the numbers have signs: numbers whose squares vanish in float16 do not vanish
    themselves.
    """
    vanishing = {name for name, found in ranges.items() if found.vanishing > VANISHING}
    readers = {name for name, found in ranges.items() if found.op_type in RATIOS and found.producers & vanishing}
    before, front = set[str](), readers
    while front:
        producers = set[str]().union(*(ranges[name].producers for name in front))
        front = {name for name in producers - before if ranges[name].gives_magnitudes}
        before |= front
    kept = before & vanishing
    while further := {name for name in before - kept if ranges[name].producers & kept}:
        kept |= further
    return frozenset(kept | readers)


def with_readers(names: frozenset[str], ranges: Mapping[str, OperationRange], depth: int) -> frozenset[str]:
    """Returns ``names`` and the operations that read their results, up to ``depth`` steps further."""
    found = names
    for _ in range(depth):
        found |= {name for name, entry in ranges.items() if entry.producers & found}
    return found


class Float32Reference:
    """Compares float16 programs with the float32 program, whose outputs it holds.

    Args:
        runner: Executes the float32 program.
        trials: The inputs.
        computed: The program's outputs on all compared inputs, in order; None if they are not known yet.
    """

    def __init__(
        self,
        runner: Runner | _ReportingProgram,
        trials: Sequence[TrialInputs],
        computed: Sequence[Arrays] | None = None,
    ) -> None:
        self._trials = trials
        outputs = map(runner.run, (feeds for trial in trials for feeds in trial.compared))
        known = iter(outputs if computed is None else computed)
        self._expected = [[next(known) for _ in trial.compared] for trial in trials]
        self._quiet = [
            [{name: _energy(array) for name, array in runner.run(feeds).items()} for feeds in trial.further]
            for trial in trials
        ]

    def agreement_db(self, runner: Runner | _ReportingProgram) -> float:
        """Signal-to-noise ratio in dB of the float32 program's worst output when inputs change in their last bits.

        If it is low, rounding alone decides what the outputs are.
        """
        return min(
            (
                worst_db(want, runner.run({name: _nudged(array) for name, array in feeds.items()}))
                for trial, expected in zip(self._trials, self._expected, strict=True)
                for feeds, want in zip(trial.compared, expected, strict=True)
            )
        )

    def worst_db(self, runner: Runner | _ReportingProgram, floor_db: float = -math.inf) -> float:
        """Signal-to-noise ratio of the worst output in dB: the lower one of the measured and the expected ratio.

        An output of few elements may happen to be near zero on one input, where the same noise weighs more than on
        others. So the mean noise on the compared inputs of one kind is also related to the least energy of the output
        on the compared and the further inputs.

        Args:
            runner: Executes the float16 program.
            floor_db: Once an output is below the floor, the program is not executed on the remaining inputs. The result
                is then below the floor, and may not be the lowest.
        """
        worst = math.inf
        for each in zip(self._trials, self._expected, self._quiet, strict=True):
            worst = min(worst, self._worst_of(runner, *each, floor_db))
            if worst < floor_db:
                break
        return worst

    def hardest(self, runner: Runner | _ReportingProgram) -> tuple[Arrays, Arrays]:
        """The inputs on which a program is farthest from the float32 program, and the float32 outputs for them."""
        found: tuple[Arrays, Arrays] | None = None
        least = math.inf
        for trial, expected in zip(self._trials, self._expected, strict=True):
            for feeds, want in zip(trial.compared, expected, strict=True):
                reached = worst_db(want, runner.run(feeds))
                if found is None or reached < least:
                    found, least = (feeds, want), reached
                if least == -math.inf:
                    return found  # none is farther
        assert found is not None  # there are trials
        return found

    def _worst_of(
        self,
        runner: Runner | _ReportingProgram,
        trial: TrialInputs,
        expected: Sequence[Arrays],
        further: Sequence[Mapping[str, float]],
        floor_db: float,
    ) -> float:
        worst, found = math.inf, []
        for feeds, want in zip(trial.compared, expected, strict=True):
            found.append(runner.run(feeds))
            worst = min(worst, worst_db(want, found[-1]))
            if worst < floor_db:
                return worst
        if worst == -math.inf or not further:
            return worst
        for name in [name for name, array in expected[0].items() if array.dtype.kind == "f"]:
            pairs = [(want[name], got[name]) for want, got in zip(expected, found, strict=True)]
            noise = sum(_energy(got.astype(np.float64) - want) for want, got in pairs) / len(pairs)
            signals = [_energy(want) for want, _ in pairs] + [energies[name] for energies in further]
            least = max(min(signals), QUIET_SAMPLE * sum(signals) / len(signals))
            worst = min(worst, decibels(least, noise))
        return worst


def decides_shapes(runner: Runner | _ReportingProgram) -> bool:
    """Whether the sizes of outputs depend on computed values, such as when a loop ends or how many boxes are found.

    Rounding changes such a decision where it is close, and on random inputs any decision may be close.
    """
    shapes = [port.shape or () for port in (*runner.inputs, *runner.outputs)]
    inputs = len(runner.inputs)
    return all(isinstance(size, int) for shape in shapes[:inputs] for size in shape) and any(
        not isinstance(size, int) for shape in shapes[inputs:] for size in shape
    )


def _nudged(array: np.ndarray) -> np.ndarray:
    """An array with every second number changed in its last bits."""
    if array.dtype != np.float32:
        return array
    changed = array.copy()
    changed.reshape(-1)[::2] *= np.float32(1 + NUDGE)
    return changed


def _energy(array: np.ndarray) -> float:
    """The sum of squares of the finite elements; 0 for an array that does not hold numbers."""
    if array.dtype.kind not in "fiu":
        return 0.0
    return float(np.square(array[np.isfinite(array)], dtype=np.float64).sum())


def choose(
    float32_package: Path,
    build: Callable[[frozenset[str]], Path],
    trials: Sequence[TrialInputs],
    floor_db: float = FLOOR_DB,
    progress: Progress | None = None,
    first: Choice | None = None,
    compared: ValuesBeforeChoices | None = None,
    *,
    missed_decisions: bool = False,
) -> Choice:
    """Finds the operations to keep in float32: by thresholds, else by noise, else the end of the program.

    Args:
        float32_package: The program in float32.
        build: Builds the program in float16 except for the operations of these names, and returns the package.
        trials: Inputs by ONNX name.
        floor_db: Signal-to-noise ratio in dB that the worst output has to reach against the float32 program.
        progress: Called before every run of a program.
        first: The choice for another form of the same program, which is tried before the smallest set.
        compared: What is compared in place of outputs that depend on a choice of boxes; None if no output does.
        missed_decisions: Whether an earlier choice :attr:`Choice.by_decisions` was made on fewer of the examples. Where
            no threshold is enough for lack of such decisions, the whole program then stays in float32.
    """
    if first is not None and first.everything:
        return first

    runs = itertools.count(1)

    def tell() -> Callable[[], None]:
        what, operations = f"looking for what has to stay in float32, run {next(runs)}", itertools.count(1)

        def executed() -> None:
            done = next(operations)
            if progress is not None and done % TOLD_EVERY == 0:
                progress(f"{what}, operation {done}", 0, 0)

        if progress is not None:
            progress(what, 0, 0)
        return executed

    def opened(package: Path) -> _ReportingProgram:
        return _ReportingProgram(load(package), tell, compared)

    runner = opened(float32_package)
    if decides_shapes(runner) and any(trial.further for trial in trials):
        return Choice(frozenset(), everything=True, worst_db=math.inf, total=0)
    studied = None
    examples = [feeds for trial in trials for feeds in trial.compared[: 1 if trial.further else None]]
    if first is None:
        studied = study(runner, examples)
    compares_others = any(trial.further for trial in trials)
    computed = None if studied is None or compares_others else studied.outputs
    search = _Search(runner, lambda kept: opened(build(kept)), Float32Reference(runner, trials, computed), floor_db)
    if first is not None and (choice := search.held(first.kept, first.total)) is not None:
        return choice
    ranges = (study(runner, examples) if studied is None else studied).ranges
    choice = search.by_thresholds(ranges)
    if choice is not None:
        return choice
    by_decisions = decides_shapes(runner) and search.nearest_db() == -math.inf
    if by_decisions and missed_decisions:
        return Choice(frozenset(ranges), everything=True, worst_db=math.inf, total=len(ranges))
    return replace(search.by_noise(ranges) or search.by_length(ranges), by_decisions=by_decisions)


@dataclass(frozen=True)
class _Search:
    """Ways to find what has to stay in float32; ``ranges`` are those of :func:`study`, in the order of execution."""

    runner: _ReportingProgram
    """Executes the float32 program."""
    built: Callable[[frozenset[str]], _ReportingProgram]
    """Builds the program in float16 except for these operations."""
    yardstick: Float32Reference
    floor_db: float
    _missed: list[float] = field(default_factory=list)

    def nearest_db(self) -> float:
        """The best ratio in dB among the choices that missed the floor, each on the first input that missed it."""
        return max(self._missed, default=math.inf)

    def held(self, kept: frozenset[str], total: int) -> Choice | None:
        """Returns the choice of these operations, or None if the outputs miss the floor."""
        worst = self.yardstick.worst_db(self.built(kept), self.floor_db)
        if worst < self.floor_db:
            self._missed.append(worst)
            return None
        return Choice(kept, everything=False, worst_db=worst, total=total)

    def by_thresholds(self, ranges: Mapping[str, OperationRange]) -> Choice | None:
        """Returns the choice by the first of :data:`TRIALS` that reaches the floor, or None if none does.

        All operations stay in float32 if the outputs miss the floor by rounding of the inputs alone.
        """
        previous: frozenset[str] | None = None
        for threshold, depth in TRIALS:
            kept = must_stay(ranges, threshold, depth)
            if kept != previous and (choice := self.held(kept, len(ranges))) is not None:
                return choice
            if previous is None and self.yardstick.agreement_db(self.runner) < self.floor_db:
                return Choice(frozenset(ranges), everything=True, worst_db=math.inf, total=len(ranges))
            previous = kept
        return None

    def by_noise(self, ranges: Mapping[str, OperationRange]) -> Choice | None:
        """Returns the choice of the operations that add the most noise to the outputs, or None if it misses the floor.

        Operations that make numbers vanish, and the readers of all of these, are added if the first ones are not
        enough.
        """
        overflowing = must_stay(ranges, *TRIALS[0])
        noise = NoiseByPart(self.runner, *self.yardstick.hardest(self.built(overflowing)), list(ranges))
        noisy = overflowing | noise.noisiest(SHARE_OF_NOISE * 10 ** (-self.floor_db / 10))
        vanishing = frozenset(name for name, found in ranges.items() if found.vanishing > VANISHING)
        for kept in dict.fromkeys((noisy, with_readers(noisy | vanishing, ranges, DOWNSTREAM))):
            if len(kept) <= MOST_KEPT * len(ranges) and (choice := self.held(kept, len(ranges))) is not None:
                return choice
        return None

    def by_length(self, ranges: Mapping[str, OperationRange]) -> Choice:
        """Returns the choice of what overflows and the shortest end of the program that is enough, maybe all of it."""
        overflowing, order = must_stay(ranges, *TRIALS[0]), list(ranges)
        too_short, length, worst = 0, len(order), math.inf
        while length - too_short > max(1, len(order) // RESOLUTION):
            shorter = (too_short + length) // 2
            choice = self.held(overflowing | frozenset(order[-shorter:]), len(order))
            if choice is None:
                too_short = shorter
            else:
                length, worst = shorter, choice.worst_db
        return Choice(overflowing | frozenset(order[-length:]), length == len(order), worst, len(order))


class _ReportingProgram:
    """A program that reports each of its runs before it starts, since a run may take long.

    Args:
        runner: Executes the program.
        tell: Called before every run; returns a function that is called after each operation of the run.
        compared: What is compared in place of some of the outputs.
    """

    def __init__(
        self, runner: Runner, tell: Callable[[], Callable[[], None]], compared: ValuesBeforeChoices | None = None
    ) -> None:
        self._runner, self._tell, self._compared = runner, tell, compared
        self.inputs, self.outputs = runner.inputs, runner.outputs

    def run(self, feeds: Arrays, *, observer: Observer | None = None) -> dict[str, np.ndarray]:
        """The outputs, or what is compared in place of them; see :meth:`edgekit_mlruntime.runner.Runner.run`."""
        executed, compared = self._tell(), self._compared

        def observe(step: Step, frame: Sequence[Any], results: list[Any]) -> None:
            executed()
            if observer is not None:
                observer(step, frame, results)

        if compared is None:
            return self._runner.run(feeds, observer=observe)
        outputs, inner = self._runner.run_showing(feeds, sorted(compared.values), observer=observe)
        kept = {name: array for name, array in outputs.items() if name not in compared.outputs}
        return kept | inner if len(inner) == len(compared.values) else outputs


class NoiseByPart:
    """The noise that each part of a program adds to the outputs when this part alone computes in float16.

    The noise of the parts nearly adds up, since their errors are independent. The noisiest part is halved again and
    again, so that few measurements find the operations that matter.

    Args:
        runner: Executes the float32 program.
        feeds: The input to measure on.
        expected: The float32 program's outputs for this input.
        order: The operations' names, as they are executed.
    """

    def __init__(
        self, runner: Runner | _ReportingProgram, feeds: Arrays, expected: Arrays, order: Sequence[str]
    ) -> None:
        self._runner = runner
        self._feeds = feeds
        self._expected = expected
        size = max(1, math.ceil(len(order) / PARTS))
        self._parts = [tuple(order[first : first + size]) for first in range(0, len(order), size)]
        self._noise = {part: self._measured(part) for part in self._parts}

    def noisiest(self, allowed: float) -> frozenset[str]:
        """Returns the operations to keep in float32 so that the others together add little enough noise.

        Args:
            allowed: Noise power that the other operations may add, as a share of the worst output's power.
        """
        while len(self._noise) < MOST_MEASUREMENTS:
            divisible = [part for part in self._noisiest_parts(allowed) if len(part) > 1]
            if not divisible:
                break
            part = divisible[0]
            halves = part[: len(part) // 2], part[len(part) // 2 :]
            self._parts = [other for other in self._parts if other != part] + list(halves)
            self._noise |= {half: self._measured(half) for half in halves}
        return frozenset(name for part in self._noisiest_parts(allowed) for name in part)

    def _noisiest_parts(self, allowed: float) -> list[tuple[str, ...]]:
        """Returns the parts to keep in float32 so that the others add at most ``allowed``, the noisiest first."""
        ordered = sorted(self._parts, key=self._noise.__getitem__, reverse=True)
        rest = math.fsum(noise for part in ordered if math.isfinite(noise := self._noise[part]))
        for count, part in enumerate(ordered):
            if math.isfinite(self._noise[part]):
                if rest <= allowed:
                    return ordered[:count]
                rest -= self._noise[part]
        return ordered

    def _measured(self, part: tuple[str, ...]) -> float:
        """Returns the noise power in the worst output, as a share of this output's power."""
        names = frozenset(part)

        def observe(step: Step, frame: Sequence[Any], results: list[Any]) -> None:
            if step.call.name not in names:
                return
            again = not step.blocks and not step.call.op_type.startswith(NOT_REPEATABLE)
            rough = (
                step.evaluate({name: halved(value) for name, value in step.inputs(frame).items()}) if again else results
            )
            results[:] = [halved(value) for value in rough]

        return 10 ** (-worst_db(self._expected, self._runner.run(self._feeds, observer=observe)) / 10)


def worst_db(expected: Arrays, actual: Arrays) -> float:
    """Signal-to-noise ratio of the worst float output in dB; minus infinity if a shape or another output differs."""
    figures = []
    for name, want in expected.items():
        if name not in actual or actual[name].shape != want.shape:
            return -math.inf  # a value is missing, or a loop whose end is computed had other turns
        comparison = OutputComparison(name)
        comparison.add(want, actual[name])
        result = comparison.result()
        exact = math.inf if result.exact else -math.inf
        figures.append(exact if result.sqnr_db is None else result.sqnr_db)
    return min(figures)
