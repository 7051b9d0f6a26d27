"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgekit.comparison.metrics import json_number
from edgekit.errors import InputError
from edgekit.model import Model
from edgekit.progress import Step
from edgekit.quantizer import CandidateError, timed_of
from edgekit.target import Runner
from edgekit.trade_off import value_text
from edgekit_quantize.search.scoring import Score
from edgekit_quantize.search.timing import MORE_ROUNDS, ROUNDS, Clock, latencies
from edgekit_quantize.search.workers import Judge, scores
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import Written

NOISE = 0.05
"""Two latencies that differ by less than this share are the same: the machine's own noise is as large."""
SAME_SPEED = 0.02
"""Candidates whose gains over the float model, timed beside each, differ by less than this share are as fast."""
LITTLE_SLOWER = 0.05
"""What of the latency may be given up there for :data:`FAR_BETTER_DB`."""
FAR_BETTER_DB = 2.0
"""Two thirds of the error's power."""
WORTH_A_RESCUE = 1.1
"""A near miss that is faster by more than this factor than all that hold the budget is brought into it."""
RESCUE_SLOWER = 0.1
"""Of near misses that are slower by less than this share the one that has lost the least is brought into the budget, of
those the one with the least error: it keeps more of its layers."""
SAME_SIZE = 1.1
"""Sizes whose ratio is below this do not decide between candidates."""
HOPELESS = 10
"""A candidate that loses more than this multiple of the budget is not brought back by a few layers in float."""
LEAST_BUDGET = 1e-3
"""Of a smaller budget the candidates in reach are those of this one; with none at all there would be none."""
FEW_IN_FLOAT = {0.0: 0.0, 0.1: 0.5}
"""As :data:`MANY_IN_FLOAT`; with none in float, weights are rounded adaptively."""
MANY_IN_FLOAT = {0.25: 0.25, 0.5: 0.1, 0.75: 0.0}
"""Shares of what layers cost in float that are left in float where the budget is not held, and what remains of the loss
then at best; a share that cannot do is not tried. On five networks 0.3 to 0.75 of it remained with a fifth in float."""

LARGEST_REFINED = 64 * 2**20
"""In bytes; rounding more weights with care takes minutes, and is done where nothing holds the budget without."""
ROUNDED_ADAPTIVELY = "weights rounded adaptively"
AT_ONCE = 2
"""How many candidates are built, loaded and timed at once: runtimes do most of it outside of Python, and models take
memory."""

Write = Callable[[Settings, Collection[str], bool], Written]


@dataclass
class Trial:
    """A candidate that was measured."""

    name: str
    settings: Settings
    written: Written
    score: Score
    latency_ms: float | None = None
    float_ms: float | None = None
    """Latency of the float model, measured in turns with it."""
    size: int = 0
    """Bytes of the weights, scales and zero points."""
    float_size: int = 0
    """Bytes of the float model's weights."""

    @property
    def is_smaller(self) -> bool:
        """Whether it takes less room than the float model."""
        return self.size < self.float_size

    @property
    def speedup(self) -> float:
        """Float latency over this one's; 1 where neither was measured."""
        return self.float_ms / self.latency_ms if self.latency_ms and self.float_ms else 1.0

    def as_record(self) -> dict[str, Any]:
        """Plain data: one point of the trade-off curve."""
        return {
            "candidate": self.name,
            "metric": self.score.metric,
            "value": self.score.value,
            "float_value": self.score.reference,
            "drop": self.score.drop,
            "count": self.score.count,
            "sqnr_db": json_number(self.score.sqnr_db),
            "latency_ms": self.latency_ms,
            "float_latency_ms": self.float_ms,
            "integer_layers": len(self.written.quantized),
            "weight_bytes": self.size,
            "float_weight_bytes": self.float_size,
            "settings": dict(self.score.in_settings),
        }


Candidate = tuple[str, Settings, Written]
"""A candidate that was written: its name, the settings that it was written by, and the model."""


@dataclass
class Bench:
    """What candidates are judged with."""

    judge: Judge
    float_model: Model
    """What candidates were made from."""
    original: Runner | None
    """Executes the float model where latency counts; None where it does not."""
    executor: Executor | None = None
    """Scores candidates in other processes; None scores them here."""
    progress: Step | None = None
    clock: Clock = time.perf_counter
    failures: dict[str, str] = field(default_factory=dict)
    """Why candidates, by name, cannot be built, loaded or run."""
    nearest: Trial | None = None
    """The one that has lost the least so far."""
    _open_still: dict[int, Runner] = field(default_factory=dict)
    """What executes the candidates that were measured last, by the identity of their models."""

    def measured(self, candidates: Sequence[Candidate], max_drop: float = math.inf) -> list[Trial]:
        """The candidates, scored by the executor's workers where there is one, else here, and timed where that counts.

        The scores are those of the setting in which they are timed; :meth:`complete` judges one in the others.
        Those that lose more than ``max_drop`` are not timed. Those that are timed are opened together and scored side
        by side, which reads the samples once, and stay open for :meth:`complete` until others are; those that are not
        timed are opened one at a time. Those that cannot be built, loaded or run are left out, and noted in
        :attr:`failures`.
        """
        self.close()
        models = [self.float_model.with_graph(written.model) for _, _, written in candidates]
        opened: list[Runner | CandidateError | None] = [None] * len(models)
        if self.executor is not None:
            found = scores(self.judge, models, self.executor, functools.partial(self._tell_scored, len(models)))
            if self.original is not None:
                opened = [self._open(model) for model in models]
        elif self.original is not None:
            self._tell(f"evaluating {' and '.join(repr(name) for name, _, _ in candidates)}", 1, 0)
            with ThreadPoolExecutor(AT_ONCE) as threads:
                opened = [*threads.map(self._open, models)]
            runners = [runner for runner in opened if not isinstance(runner, CandidateError | None)]
            judged = iter(self.judge.first_scores_of(runners))
            found = [runner if isinstance(runner, CandidateError) else next(judged) for runner in opened]
        else:
            found = []
            for number, (model, (name, _, _)) in enumerate(zip(models, candidates, strict=True), 1):
                self._tell(f"evaluating {name!r}", number, len(models))
                found.append(self.judge.score(model))
        trials, timed = [], []
        for candidate, model, score, runner in zip(candidates, models, found, opened, strict=True):
            if isinstance(score, CandidateError):
                self.failures[candidate[0]] = score.message
                continue
            trial = Trial(*candidate, score, size=model.weight_bytes, float_size=self.float_model.weight_bytes)
            trials.append(trial)
            if not isinstance(runner, CandidateError | None) and score.drop <= max_drop:
                timed.append((trial, runner))
                self._open_still[id(trial.written.model)] = runner
        known = trials if self.nearest is None else [self.nearest, *trials]
        self.nearest = min(known, key=lambda trial: trial.score.drop, default=None)
        if timed and self.original is not None:
            self._time(self.original, timed)
        return trials

    def time_again(self, trials: Sequence[Trial]) -> None:
        """Measure the latencies of candidates once more, for longer."""
        if self.original is None:
            return
        self.close()
        opened = [(trial, self._open(self.float_model.with_graph(trial.written.model))) for trial in trials]
        timed = [(trial, runner) for trial, runner in opened if not isinstance(runner, CandidateError)]
        if timed:
            self._time(self.original, timed, MORE_ROUNDS)

    def complete(self, trial: Trial) -> bool:
        """Judge a candidate in all settings that are missing; False where it cannot be opened or run in one of them."""
        if trial.score.complete:
            return True
        self._tell(f"evaluating {trial.name!r} as it ships", 1, 0)
        still_open = self._open_still.pop(id(trial.written.model), None)
        score = self.judge.completed(self.float_model.with_graph(trial.written.model), trial.score, still_open)
        if isinstance(score, CandidateError):
            self.failures[trial.name] = score.message
            return False
        trial.score = score
        return True

    def close(self) -> None:
        """Close what is open of the candidates that were measured last."""
        self._open_still.clear()

    def _open(self, model: Model) -> Runner | CandidateError:
        try:
            return self.judge.open(model)
        except CandidateError as error:
            return error

    def _time(self, original: Runner, timed: Sequence[tuple[Trial, Runner]], rounds: int = ROUNDS) -> None:
        """Measure latencies, in turns with the float model's; nothing else of this program runs beside them."""
        self._tell("timing candidates", 1, 0)
        feeds = self.judge.scorer.references.example
        runners = [timed_of(runner) for runner in (original, *(runner for _, runner in timed))]
        calls = [functools.partial(runner.run, feeds) for runner in runners]
        float_ms, *found = latencies(*calls, clock=self.clock, rounds=rounds)
        for (trial, _), latency in zip(timed, found, strict=True):
            trial.float_ms, trial.latency_ms = float_ms, latency

    def _tell_scored(self, total: int, count: int) -> None:
        self._tell("evaluating candidates", count, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is None:
            return
        if self.nearest is not None:
            score = self.nearest.score
            values = [value_text(score.metric, value) for value in (score.value, score.reference)]
            what = f"so far {self.nearest.name!r}, {score.metric} {values[0]} (float {values[1]}); {what}"
        self.progress(what, done, total)


class FloatCosts(NamedTuple):
    """What it costs to leave layers in float, by name, in the order in which they go back to float."""

    by_error: Mapping[str, float]
    """1 for each layer, the largest error first."""
    by_work: Mapping[str, float]
    """Multiplications of each, or numbers where they are only stored as integers; the largest error for its work first.
    """


@dataclass
class Outcome:
    """What the search found."""

    held: list[Trial] = field(default_factory=list)
    """Those that hold the budget and are worth it, the best first; the others may be judged in one setting only."""
    curve: list[Trial] = field(default_factory=list)
    """All that were tried and could be run."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why the others could not, by name."""
    unrestricted: Trial | None = None
    """The best one with weights whose sums may saturate in 16 bits: what keeping them from it costs."""

    @property
    def best(self) -> Trial | None:
        """None where nothing holds the budget."""
        return self.held[0] if self.held else None


def search(
    bench: Bench,
    candidates: Mapping[str, Settings],
    write: Write,
    float_costs: Callable[[Written, Settings], FloatCosts],
    max_drop: float,
    *,
    auto: bool,
    choice: str | None = None,
) -> Outcome:
    """Measure the candidates, if it pays bring the fastest near miss into the budget, choose the fastest.

    The best one holds the budget in every setting: the best of those that hold it where they are timed is judged in the
    others, and where it does not hold it there, the next best is.

    Where nothing that is nearly as fast holds the budget, a near miss gets its weights rounded adaptively; then layers
    go back to float, those first that add the largest error for what they cost. Where that does not help either, layers
    whose weights are only stored as integers do. Where the best one only stores weights, they are rounded adaptively.

    Of candidates that are as fast as each other the smallest is chosen, and of those the one with the least error.

    Args:
        bench: What they are judged with.
        candidates: The settings of each, by name.
        write: Writes a candidate with the named layers kept in float, and with weights rounded adaptively if asked to.
        float_costs: What it costs to leave each of a candidate's integer layers in float, or of those that it stores as
            integers where it has no others.
        max_drop: What may be lost of the metric.
        auto: Whether a candidate that is slower or no smaller than float is out.
        choice: The candidate that is the best whatever the times say; None where they decide.

    Raises:
        edgekit.errors.InputError: The choice is none of those that hold the budget.
    """
    outcome = Outcome()

    def fit() -> list[Trial]:
        held = [trial for trial in outcome.curve if trial.score.drop <= max_drop]
        return [
            trial
            for trial in held
            if trial.name == choice or not auto or (trial.is_smaller and trial.speedup >= 1 - NOISE)
        ]

    def ranked() -> list[Trial]:
        return sorted(_ranked(fit()), key=lambda trial: trial.name != choice)

    def complete_best() -> None:
        while (held := ranked()) and not held[0].score.complete:
            if not bench.complete(held[0]):
                outcome.curve.remove(held[0])

    at_once = len(candidates) if bench.executor is not None else AT_ONCE
    for first in range(0, len(candidates), at_once):
        some = [*candidates.items()][first : first + at_once]
        outcome.curve += bench.measured([(name, settings, write(settings, (), False)) for name, settings in some])
    if not fit():  # a few turns of a quick model, on a machine that does something else too, say little
        bench.time_again([trial for trial in outcome.curve if trial.score.drop <= max_drop and trial.is_smaller])
    complete_best()
    to_beat = WORTH_A_RESCUE * max((trial.speedup for trial in fit()), default=0.0)
    near = [trial for trial in outcome.curve if _is_near_miss(trial, max_drop)]
    misses = [trial for trial in near if trial.written.quantized and (trial.speedup > to_beat or not fit())]
    if choice is not None:
        misses = near = [trial for trial in outcome.curve if choice.startswith(f"{trial.name}, ")]

    def rescue(misses: Sequence[Trial]) -> None:
        if not misses:
            return
        fastest = max(trial.speedup for trial in misses)
        as_good = [trial for trial in misses if trial.speedup * (1 + RESCUE_SLOWER) >= fastest]
        miss = min(as_good, key=lambda trial: (trial.score.drop, -trial.score.sqnr_db))
        costs = float_costs(miss.written, miss.settings)
        first, then = (costs.by_error, ""), (costs.by_work, ", small ones first")
        if miss.written.quantized:
            first, then = (costs.by_work, ", little work first"), (costs.by_error, "")
        held = bring_back(miss, FEW_IN_FLOAT, costs.by_error) or bring_back(miss, MANY_IN_FLOAT, *first)
        if is_to_be_beaten(held) or (held is None and not miss.written.quantized):
            bring_back(miss, MANY_IN_FLOAT, *then)

    def is_to_be_beaten(held: Trial | None) -> bool:
        if choice is not None:
            return held is None or held.name != choice
        return held is not None and held.speedup < 1 - NOISE

    def bring_back(
        miss: Trial, shares: Mapping[float, float], costs: Mapping[str, float], order: str = ""
    ) -> Trial | None:
        rounded = f"{miss.name}, {ROUNDED_ADAPTIVELY}"
        names, in_reach = {miss.name, rounded}, max(max_drop, LEAST_BUDGET)
        tried = None
        for share, best_left in shares.items() if costs else ():
            in_float = _share_of(costs, share)
            drop = min(trial.score.drop for trial in outcome.curve if trial.name in names)
            if drop * best_left > in_reach or len(in_float) in (tried, len(costs)) or (share and not in_float):
                continue
            tried = len(in_float)
            change = f"{tried} layer{'s' if tried != 1 else ''} in float{order}" if tried else ROUNDED_ADAPTIVELY
            adaptive = not any(trial.name == rounded and trial.score.drop > miss.score.drop for trial in outcome.curve)
            candidate = f"{miss.name}, {change}", miss.settings, write(miss.settings, in_float, adaptive)
            for trial in bench.measured([candidate], max_drop):
                if trial.score.drop > max_drop:
                    outcome.curve.append(trial)
                elif bench.complete(trial):
                    outcome.curve.append(trial)
                    if trial.score.drop <= max_drop:
                        return trial
        return None

    def refine(best: Trial) -> None:
        """Where weights are only stored, all that is lost is lost by their rounding; better ones take no longer."""
        name = f"{best.name}, {ROUNDED_ADAPTIVELY}"
        refined = write(best.settings, best.written.keep_float, True)
        if set(refined.rounded_adaptively) > set(best.written.rounded_adaptively):
            for trial in bench.measured([(name, best.settings, refined)], max_drop):
                trial.latency_ms, trial.float_ms = best.latency_ms, best.float_ms  # the same operations
                outcome.curve.append(trial)

    rescue(misses)
    if not fit():
        rescue([trial for trial in near if not trial.written.quantized])
    complete_best()
    held = ranked()
    if held and choice is None and not held[0].written.quantized and held[0].size <= LARGEST_REFINED:
        refine(held[0])
        complete_best()
    outcome.held = ranked()
    if choice is not None and choice not in {trial.name for trial in outcome.held}:
        raise InputError(
            "names a candidate that does not hold the budget, or is none",
            subject="--like",
            expected=choice,
            found=", ".join(trial.name for trial in outcome.curve),
            hint="leave --like out",
        )
    outcome.failed = bench.failures
    return outcome


def _share_of(costs: Mapping[str, float], share: float) -> list[str]:
    """The layers in front whose costs are a share of the sum of all, without those of which less than half fits in."""
    left = share * sum(costs.values())
    chosen = []
    for layer, cost in costs.items():
        if cost / 2 <= left:
            chosen.append(layer)
            left -= cost
    return chosen


def _ranked(trials: Sequence[Trial]) -> Iterator[Trial]:
    """Each of them, the best of those that are left in front."""
    left = list(trials)
    while (best := _fastest(left)) is not None:
        yield best
        left = [trial for trial in left if trial is not best]


def _fastest(trials: Sequence[Trial]) -> Trial | None:
    """The fastest; of those that are as fast the smallest, of those that are as small the one with the least error.

    One that is little slower and has two thirds of the error, or less, is preferred to it. Where no latency counts,
    computing with integers is taken to be faster than storing them.
    """
    if not trials:
        return None
    if any(trial.latency_ms is None for trial in trials):
        with_integers = [trial for trial in trials if trial.written.quantized]
        return _best_of(with_integers or trials)
    fastest = max(trial.speedup for trial in trials)
    near, little_slower = (
        [trial for trial in trials if trial.speedup * (1 + share) >= fastest] for share in (SAME_SPEED, LITTLE_SLOWER)
    )
    best = _best_of(near)
    far_better = [trial for trial in little_slower if trial.score.sqnr_db >= best.score.sqnr_db + FAR_BETTER_DB]
    return _best_of(far_better or [best])


def _best_of(trials: Sequence[Trial]) -> Trial:
    smallest = min(trial.size for trial in trials)
    return max(
        (trial for trial in trials if trial.size <= smallest * SAME_SIZE),
        key=lambda trial: (trial.score.sqnr_db, -trial.size),
    )


def _is_near_miss(trial: Trial, max_drop: float) -> bool:
    return max_drop < trial.score.drop <= HOPELESS * max(max_drop, LEAST_BUDGET)
