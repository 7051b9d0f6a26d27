"""Measures candidates: builds them for the target, scores them, and times them in turns with the float model."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from edgekit.comparison.acceptance.trade_off import loss_text, value_text
from edgekit.comparison.numbers.metrics import json_number
from edgekit.model import Model
from edgekit.progress import Step
from edgekit.quantizer import CandidateError, is_smaller, timed_of
from edgekit.target import Runner
from edgekit.timing.latency import Interval
from edgekit_quantize.calibration.references import Feeds, Reference
from edgekit_quantize.search.score import Score, worst_of
from edgekit_quantize.search.timing import AS_QUICK, MORE_ROUNDS, ROUNDS, SETTLED_ROUNDS, Clock, latencies
from edgekit_quantize.search.workers import Judge, scores
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written

AT_ONCE = 2
"""How many candidates are built, loaded and timed at once: runtimes do most of this outside of Python, and models take
memory."""
TIMED_SIZES = 3
"""The maximum number of sample sizes on which candidates are timed: the fastest on short samples may not be the fastest
on long ones."""
NOISE = 0.05
"""Latencies that differ by less than this share count as equal: the machine's noise is as large."""


@dataclass
class Trial:
    """A candidate that was measured."""

    name: str
    settings: Settings
    written: Written
    score: Score
    latency_ms: float | None = None
    """The latency in milliseconds: the mean over samples of different sizes (:data:`TIMED_SIZES`)."""
    float_ms: float | None = None
    """The float model's latency in milliseconds, measured in turns with the candidate's."""
    spread: float = 0.0
    """How much the turns of a model disagreed (:attr:`edgekit_quantize.search.timing.Latencies.spread`)."""
    speedup_interval: Interval | None = None
    """The interval of :attr:`speedup` by the measured turns; None if the candidate was not timed."""
    timed_again: bool = False
    """Whether the latencies are those of :data:`MORE_ROUNDS`."""
    size: int = 0
    """Bytes of the weights, scales and zero points."""
    float_size: int = 0
    """Bytes of the float model's weights."""

    @property
    def is_smaller(self) -> bool:
        """Whether the candidate is sufficiently smaller than the float model (:func:`edgekit.quantizer.is_smaller`)."""
        return is_smaller(self.size, self.float_size, multiplies_integers=bool(self.written.quantized))

    @property
    def has_no_weights(self) -> bool:
        """Whether there are no weights to make smaller, as in tree ensembles, whose numbers are node attributes."""
        return self.size == self.float_size == 0

    @property
    def speedup(self) -> float:
        """The float model's latency over the candidate's; 1 if they were not measured."""
        return self.float_ms / self.latency_ms if self.latency_ms and self.float_ms else 1.0

    @property
    def is_slower(self) -> bool:
        """Whether the candidate takes longer than float.

        A candidate that stores weights as integers and computes in float has as much to compute as float, so it gets
        the benefit of the doubt on a busy machine. One that computes with integers does not: on many processors these
        take longer than floats.
        """
        in_doubt = 0.0 if self.written.quantized else self.spread
        return self.speedup * (1 + in_doubt) < 1 - NOISE

    @property
    def is_surely_slower(self) -> bool:
        """Whether it was timed again, turns agreed, and even the upper end of :attr:`speedup_interval` is slower.

        This is never sure of candidates that compute in float (:attr:`is_slower`).
        """
        if not self.written.quantized or not self.timed_again:
            return False
        if self.speedup_interval is None or self.spread > AS_QUICK:
            return False
        return self.speedup_interval[1] < 1 - NOISE

    def as_record(self) -> dict[str, Any]:
        """Plain data: one point of the trade-off curve."""
        return {
            "candidate": self.name,
            "metric": self.score.metric,
            "value": self.score.share,
            "float_value": self.score.reference,
            "drop": self.score.drop,
            "count": self.score.count,
            **({} if self.score.samples is None else {"samples": self.score.samples}),
            **self.score.heads_record,
            **({} if self.score.lost_class is None else {"lost_class": self.score.lost_class}),
            "sqnr_db": json_number(self.score.sqnr_db),
            "latency_ms": self.latency_ms,
            "float_latency_ms": self.float_ms,
            **({} if self.speedup_interval is None else {"speedup_interval": [*self.speedup_interval]}),
            "is_slower": self.is_slower,
            "integer_layers": len(self.written.quantized),
            "weight_bytes": self.size,
            "float_weight_bytes": self.float_size,
            "settings": dict(self.score.in_settings),
        }


Candidate = tuple[str, Settings, Written]
"""A candidate that was written: its name, the settings that it was written by, and the model."""
Write = Callable[[Settings, Collection[str], bool], Written]
"""Writes a candidate by its settings, with the named layers kept in float, and with weights rounded adaptively if asked
to."""


@dataclass
class Bench:
    """Opens, scores and times candidates."""

    judge: Judge
    float_model: Model
    """The float model that candidates were made from."""
    original: Runner | None
    """Executes the float model if latency counts; None if it does not."""
    left_out: Callable[[], Iterable[Reference]] | None = None
    """Returns samples that candidates are not scored on at first, with the float model's answers."""
    judge_of_others: Callable[[Written], Judge | None] | None = None
    """Returns the judge that also scores a candidate whose weights were fitted to one part of the samples, on the other
    part; None for candidates that only :attr:`judge` scores."""
    executor: Executor | None = None
    """Scores candidates in other processes; None scores them here."""
    progress: Step | None = None
    clock: Clock = time.perf_counter
    failures: dict[str, str] = field(default_factory=dict)
    """Why candidates, by name, cannot be built, loaded or run."""
    nearest: Trial | None = None
    """The trial that has lost the least so far."""
    _open_still: dict[int, Runner] = field(default_factory=dict)
    """The open runners of the candidates that were measured or timed last, by the ``id`` of their models."""

    def measured(
        self, candidates: Sequence[Candidate], max_drop: float = math.inf, *, as_quick_as: Trial | None = None
    ) -> list[Trial]:
        """Measures candidates: scores them, in the executor's workers if there are any, and times them if that counts.

        The scores are those of the setting in which candidates are timed; :meth:`complete` scores one in the other
        settings. Candidates that lose more than ``max_drop`` are not timed. If latency counts, candidates are opened
        together and scored together, which reads the samples once, and stay open for :meth:`complete` until the next
        call; else they are opened one at a time. Candidates that cannot be built, loaded or run are left out, and noted
        in :attr:`failures`. If weights of one were fitted to a part of the samples, all are scored on the others too,
        and the worse score counts.

        Args:
            candidates: The candidates.
            max_drop: The largest loss with which a candidate is timed.
            as_quick_as: A timed trial whose operations the candidates execute, so that its latencies are theirs too.
        """
        self.close()
        of_others = next(filter(None, (self._judge_of_others(written) for _, _, written in candidates)), None)
        judges = [self.judge, *([] if of_others is None else [of_others])]
        models = [self.float_model.with_graph(written.model) for _, _, written in candidates]
        opened: list[Runner | CandidateError | None] = [None] * len(models)
        if self.executor is not None:
            tell = functools.partial(self._tell_scored, len(models))
            found = _worst_of_each([scores(judge, models, self.executor, tell) for judge in judges])
            if self.original is not None:
                opened = [self._open(model) for model in models]
        elif self.original is not None:
            self._tell(f"evaluating {' and '.join(repr(name) for name, _, _ in candidates)}", 0, 0)
            with ThreadPoolExecutor(AT_ONCE) as threads:
                opened = [*threads.map(self._open, models)]
            runners = [runner for runner in opened if not isinstance(runner, CandidateError | None)]
            judged = iter(
                self.judge.first_scores_of(runners)
                if of_others is None
                else _worst_of_each(self.judge.first_scores_with(of_others, runners))
            )
            found = [runner if isinstance(runner, CandidateError) else next(judged) for runner in opened]
        else:
            found = []
            for number, (model, (name, _, _)) in enumerate(zip(models, candidates, strict=True), 1):
                self._tell(f"evaluating {name!r}", number, len(models))
                found += _worst_of_each([[judge.score(model)] for judge in judges])
        trials, timed = [], []
        for candidate, model, score, runner in zip(candidates, models, found, opened, strict=True):
            if isinstance(score, CandidateError):
                self.failures[candidate[0]] = score.message
                continue
            of_float = self.float_model.weight_bytes
            # bytes saved by the preparation of the graph are no saving of quantization
            size = of_float if candidate[2].is_float else model.weight_bytes
            trial = Trial(*candidate, score, size=size, float_size=of_float)
            trials.append(trial)
            if not isinstance(runner, CandidateError | None) and score.drop <= max_drop:
                timed.append((trial, runner))
                self._open_still[id(trial.written.model)] = runner
        known = trials if self.nearest is None else [self.nearest, *trials]
        self.nearest = min(known, key=lambda trial: trial.score.drop, default=None)
        if as_quick_as is not None:
            for trial in trials:
                trial.latency_ms, trial.float_ms = as_quick_as.latency_ms, as_quick_as.float_ms
                trial.spread, trial.speedup_interval = as_quick_as.spread, as_quick_as.speedup_interval
                trial.timed_again = as_quick_as.timed_again
        elif timed and self.original is not None:
            self._time(self.original, timed)
        return trials

    def time_again(self, trials: Sequence[Trial]) -> None:
        """Measure the latencies of candidates again, in more rounds; the fastest :data:`AT_ONCE` stay open."""
        if self.original is None:
            return
        open_still = [self._open_still.get(id(trial.written.model)) for trial in trials]
        self.close()
        opened = [
            (trial, self._open(self._model(trial)) if runner is None else runner)
            for trial, runner in zip(trials, open_still, strict=True)
        ]
        timed = [(trial, runner) for trial, runner in opened if not isinstance(runner, CandidateError)]
        if timed:
            self._time(self.original, timed, MORE_ROUNDS, MORE_ROUNDS)
            for trial, _ in timed:
                trial.timed_again = True
        fastest = sorted(timed, key=lambda pair: -pair[0].speedup)[:AT_ONCE]
        self._open_still.update({id(trial.written.model): runner for trial, runner in fastest})

    def complete(self, trial: Trial) -> bool:
        """Score a candidate in the missing settings, and on the samples left out if it was scored on few decisions.

        Returns False if the candidate cannot be opened or run in one of the settings.
        """
        if trial.score.complete:
            return True
        self._tell(f"evaluating {trial.name!r} as it ships", 0, 0)
        still_open = self._open_still.pop(id(trial.written.model), None)
        candidate = self._model(trial)
        of_others = self._judge_of_others(trial.written)
        if of_others is None:
            score = self.judge.completed(candidate, trial.score, still_open, self.left_out)
        else:  # the samples that are left out were used for the fit
            score = of_others.completed(candidate, trial.score, still_open)
            if isinstance(score, Score):  # see _worst_of_each
                score = replace(score, sqnr_db=trial.score.sqnr_db)
        if isinstance(score, CandidateError):
            self.failures[trial.name] = score.message
            return False
        trial.score = score
        return True

    def close(self) -> None:
        """Close the open runners of the candidates that were measured last."""
        self._open_still.clear()

    def _judge_of_others(self, written: Written) -> Judge | None:
        return None if self.judge_of_others is None else self.judge_of_others(written)

    def _model(self, trial: Trial) -> Model:
        return self.float_model.with_graph(trial.written.model)

    def _open(self, model: Model) -> Runner | CandidateError:
        try:
            return self.judge.open(model)
        except CandidateError as error:
            return error

    def _time(
        self,
        original: Runner,
        timed: Sequence[tuple[Trial, Runner]],
        rounds: int = ROUNDS,
        settled_rounds: int = SETTLED_ROUNDS,
    ) -> None:
        """Measure latencies in turns with the float model's; nothing else of this program runs at the same time."""
        self._tell("timing candidates", 0, 0)
        feeds = self.judge.scorer.references.of_sizes(TIMED_SIZES)
        runners = [timed_of(runner) for runner in (original, *(runner for _, runner in timed))]
        calls = [functools.partial(_run_all, runner, feeds) for runner in runners]
        measured = latencies(*calls, clock=self.clock, rounds=rounds, settled_rounds=settled_rounds)
        float_ms, *found = (milliseconds / len(feeds) for milliseconds in measured.milliseconds)
        for place, ((trial, _), latency) in enumerate(zip(timed, found, strict=True), 1):
            trial.float_ms, trial.latency_ms, trial.spread = float_ms, latency, measured.spread
            trial.speedup_interval = measured.times_as_fast(place, 0)

    def _tell_scored(self, total: int, count: int) -> None:
        self._tell("evaluating candidates", count, total)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.progress is None:
            return
        if self.nearest is not None:
            score = self.nearest.score
            values = [value_text(score.metric, value) for value in (score.value, score.reference)]
            head = score.head
            beside = "" if head is None else f", {loss_text(1 - score.heads[head].share)} of {head} lost"
            what = f"so far {self.nearest.name!r}, {score.metric} {values[0]} (float {values[1]}){beside}; {what}"
        self.progress(what, done, total)


def _run_all(runner: Runner, feeds: Sequence[Feeds]) -> None:
    for sample in feeds:
        runner.run(sample)


def _worst_of_each(by_judge: Sequence[Sequence[Score | CandidateError]]) -> list[Score | CandidateError]:
    """For each candidate the worst of its scores by several judges, or the first error.

    The signal-to-noise ratio stays that of the first judge: candidates are compared by it, so it has to be measured on
    the same samples for all of them.
    """
    found: list[Score | CandidateError] = []
    for first, *others in zip(*by_judge, strict=True):
        known = [score for score in (first, *others) if isinstance(score, Score)]
        errors = [score for score in (first, *others) if isinstance(score, CandidateError)]
        if errors or not others:
            found.append(errors[0] if errors else first)
        else:
            complete = all(score.complete for score in known)
            found.append(replace(worst_of(known), sqnr_db=known[0].sqnr_db, complete=complete))
    return found
