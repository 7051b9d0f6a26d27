"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from edgekit.quantizer import ChoiceError
from edgekit_quantize.search.bench import AT_ONCE, Bench, Candidate, Trial, Write
from edgekit_quantize.search.near_miss import (
    ROUNDED_ADAPTIVELY,
    Costs,
    NearMiss,
    is_near_miss,
    most_of_a_near_miss,
    rescue,
)
from edgekit_quantize.search.timing import AS_QUICK, BUSY
from edgekit_quantize.settings import Settings

SAME_SPEED = 0.02
"""Candidates count as equally fast if their speedups over the float model differ by at most this share."""
MOST_IN_DOUBT = 0.15
"""The maximum of that share on a busy machine, where the turns of one model do not agree."""
LITTLE_SLOWER = 0.05
"""The share of the latency that may be given up for :data:`FAR_BETTER_DB`."""
SLOWER_FOR_ACCURACY = 0.15
"""The share that may be given up if the slower candidate also loses less by more than :data:`VISIBLY_LESS`."""
VISIBLY_LESS = 1e-3
"""How much less has to be lost for that, in points of the metric: tables of accuracies show a tenth of a percent."""
FAR_BETTER_DB = 2.0
"""How much better the SQNR of a slightly slower candidate has to be: it then has two thirds of the error's power."""
SAME_SIZE = 1.1
"""Candidates whose sizes have at most this ratio count as equally large."""
WORTH_A_RESCUE = 1.1
"""A near miss is brought into the budget if it is more than this factor faster than all candidates that hold it."""
LARGEST_REFINED = 64 * 2**20
"""The largest candidate, in bytes, whose weights are rounded adaptively although it holds the budget: for more weights
this takes minutes."""
QUICKLY_REFINED = 8 * 2**20
"""The largest candidate, in bytes, whose weights are rounded adaptively within seconds."""
NO_WEIGHTS = "the model has no weights that could be stored in fewer bits"
"""The reason why a model such as a tree ensemble, whose numbers are node attributes, stays as it is."""
NEXT_TO_NOTHING = 0.1
"""Above :data:`QUICKLY_REFINED`, a candidate that loses less than this share of the budget is not refined: such a loss
cannot be distinguished from none."""


@dataclass
class Outcome:
    """The trials of a search, and the best of them."""

    held: list[Trial] = field(default_factory=list)
    """The trials that hold the budget and are worth it, the best first; all but the first may be judged in one setting
    only."""
    curve: list[Trial] = field(default_factory=list)
    """All trials that could be run."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why other candidates could not be run, by name."""
    unrestricted: Trial | None = None
    """The best trial, written with weights whose sums may saturate in 16 bits; it shows the cost of preventing that."""
    last: Callable[[], list[Trial]] | None = None
    """Measures the model in half precision, and returns it if it holds the budget and is worth it. It is called if no
    trial that holds the budget can ship. None if half precision was measured already, or is not a candidate."""

    @property
    def best(self) -> Trial | None:
        """The best trial; None if no trial holds the budget and is worth it."""
        return self.held[0] if self.held else None

    def why_float(self, max_drop: float, given: str = "float") -> str:
        """The reason why no trial ships, if there is no best one: the flaws of the trials.

        Args:
            max_drop: The budget.
            given: What the text calls the model that candidates are compared with.
        """
        if not self.curve:
            return "no candidate can be built and run for the target"
        if all(trial.has_no_weights for trial in self.curve):
            return NO_WEIGHTS
        held = [trial for trial in self.curve if trial.score.drop <= max_drop]
        if not held:
            return f"no candidate holds the accuracy budget, at most {max_drop:.2%} lost"
        flaws = [
            *([f"slower than {given} on this machine"] if any(trial.is_smaller for trial in held) else []),
            *([f"no smaller than {given}"] if not all(trial.is_smaller for trial in held) else []),
        ]
        if len(held) == 1:
            return f"the only candidate that holds the accuracy budget, {held[0].name!r}, is {flaws[0]}"
        return f"the candidates that hold the accuracy budget are {' or '.join(flaws)}"


@dataclass
class Search:
    """One search: measures candidates, brings the fastest near miss into the budget if it pays, chooses the fastest.

    The best candidate holds the budget in every setting: the best of those that hold it in the setting in which they
    are timed is scored in the other settings; if it does not hold the budget there, the next best is scored.

    A near miss is brought into the budget if no candidate nearly as fast holds it
    (:mod:`edgekit_quantize.search.near_miss`): one that computes with integers, or if that does not help, one that only
    stores weights. If the best candidate only stores weights, they are rounded adaptively.

    Of equally fast candidates the smallest is chosen, and of equally small ones the one with the least error.
    """

    bench: Bench
    """Measures candidates."""
    write: Write
    """Writes candidates."""
    costs: Costs
    """The costs of keeping layers in float."""
    max_drop: float
    """The budget: how much of the metric may be lost."""
    _: KW_ONLY
    auto: bool
    """Whether candidates that are slower than float, or no smaller, are excluded."""
    choice: str | None = None
    """The name of the candidate that is chosen regardless of latencies; None chooses by latencies."""
    in_half: Callable[[], Candidate] | None = None
    """Writes the model in half precision. It is measured if no other candidate holds the budget, or if none of those
    that do is the choice, and by :attr:`Outcome.last` if none of them can ship. None leaves half precision out."""
    prefers_integers: bool = False
    """Whether a near miss that computes with integers is brought into the budget even if a candidate that only stores
    integers holds it."""
    _outcome: Outcome = field(default_factory=Outcome, init=False)
    _refined: set[str] = field(default_factory=set, init=False)
    """The names of the candidates that were refined, or that refining does not change."""
    _timed_together: list[Collection[str]] = field(default_factory=list, init=False)
    """The names of trials that were timed in turns with each other, for each time."""

    def run(self, candidates: Mapping[str, Settings]) -> Outcome:
        """The outcome of the search over the candidates and the forms made of them.

        Args:
            candidates: The settings of each candidate, by name.

        Raises:
            edgekit.quantizer.ChoiceError: The choice is not among the candidates that hold the budget.
        """
        self._measure(candidates)
        self._time_again_if_slow()
        self._rescue_near_misses()
        self._try_half_precision()
        self._outcome.held = self._ranked()
        self._require_choice()
        self._outcome.failed = self.bench.failures
        return self._outcome

    def _measure(self, candidates: Mapping[str, Settings]) -> None:
        at_once = len(candidates) if self.bench.executor is not None else AT_ONCE
        for first in range(0, len(candidates), at_once):
            some = [*candidates.items()][first : first + at_once]
            self._timed_together.append([name for name, _ in some])
            written = [(name, settings, self.write(settings, (), False)) for name, settings in some]
            self._outcome.curve += self.bench.measured(written, most_of_a_near_miss(self.max_drop))

    def _time_again_if_slow(self) -> None:
        """If no trial is fit, time again those that are only too slow.

        A few turns of a fast model on a busy machine are not conclusive. Trials that were timed again, and whose turns
        agree that they are slower, are not timed once more.
        """
        if not self._fit():
            held = [trial for trial in self._outcome.curve if trial.score.drop <= self.max_drop and trial.is_smaller]
            in_doubt = [trial for trial in held if not trial.is_surely_slower]
            if in_doubt:
                self.bench.time_again(in_doubt)

    def _time_together_if_busy(self) -> None:
        """If turns did not agree, time all trials that may be the best in turns with each other, unless that was done.

        Trials are timed a few at a time, and what disturbs one group need not disturb the next: with stored weights, a
        model of 0.6 ms appeared to be 2.7 times as fast as float, and with integers, a minute before, 2.0 times.
        """
        held = [trial for trial in self._outcome.curve if trial.score.drop <= self.max_drop and trial.is_smaller]
        timed = [trial for trial in held if trial.latency_ms is not None]
        names = {trial.name for trial in timed}
        in_doubt = max((trial.spread for trial in timed), default=0.0) > BUSY
        if self.choice is None and in_doubt and not any(map(names.issubset, self._timed_together)):
            self._timed_together.append(names)
            self.bench.time_again(timed)

    def _confirm_best(self) -> None:
        """Time trials again whose latencies are in doubt; then refine the best, and score it in all of its settings.

        It is refined first, because its refined form usually takes its place, so that scoring it before would be in
        vain.
        """
        self._time_again_if_slow()
        self._time_together_if_busy()
        while held := self._ranked():
            if self._refine(held[0]):
                continue
            if held[0].score.complete:
                return
            if not self.bench.complete(held[0]):
                self._outcome.curve.remove(held[0])

    def _rescue_near_misses(self) -> None:
        """Bring near misses into the budget, then score the best trial in all of its settings.

        Scoring comes second, because a rescued near miss is often faster than the best trial before. If the best trial
        does not hold the budget in all settings, near misses that were not worth a rescue are considered again.
        """
        untried = self._names()
        self._rescue(untried)
        self._confirm_best()
        while self._rescue(untried):
            self._confirm_best()

    def _rescue(self, untried: set[str]) -> bool:
        """Bring a fast near miss that computes with integers into the budget; if no trial is fit then, another one.

        Args:
            untried: The names of the candidates that may be tried; those that are tried are removed.

        Returns:
            Whether any near miss was tried.
        """
        if self.choice is None:
            near = [trial for trial in self._outcome.curve if is_near_miss(trial, self.max_drop)]
        else:
            near = self._made_into(self.choice)
        near = [trial for trial in near if trial.name in untried]
        first = self._worth_a_rescue(near) if self.choice is None else near
        rescue([self._near_miss(trial) for trial in first])
        others = [] if first is near or self._fit() else [trial for trial in near if not trial.written.quantized]
        rescue([self._near_miss(trial) for trial in others])
        untried.difference_update(trial.name for trial in (*first, *others))
        return bool(first or others)

    def _made_into(self, choice: str) -> list[Trial]:
        """The candidate that the choice is a form of, by its name; empty if the choice is a candidate itself."""
        named = [trial for trial in self._outcome.curve if f"{choice}, ".startswith(f"{trial.name}, ")]
        closest = max(named, key=lambda trial: len(trial.name), default=None)
        return [] if closest is None or closest.name == choice else [closest]

    def _worth_a_rescue(self, near: Sequence[Trial]) -> list[Trial]:
        """The near misses that compute with integers, and are faster than all fit trials."""
        to_beat = WORTH_A_RESCUE * self._to_beat()
        return [trial for trial in near if trial.written.quantized and trial.speedup > to_beat]

    def _to_beat(self) -> float:
        """How many times as fast as float the fastest fit trial is; 0 if there is none, or if the choice decides."""
        if self.choice is not None:
            return 0.0
        rivals = [trial for trial in self._fit() if trial.written.quantized or not self.prefers_integers]
        return max((trial.speedup for trial in rivals), default=0.0)

    def _near_miss(self, trial: Trial) -> NearMiss:
        to_beat = self._to_beat()
        return NearMiss(trial, self._outcome.curve, self.bench, self.write, self.costs, self.max_drop, to_beat)

    def _refine(self, best: Trial) -> bool:
        """If the best trial only stores weights, round them adaptively, unless that takes long and gains little.

        In such a trial, rounding causes all of the loss, and better rounded weights take no more time to compute with.

        Returns:
            Whether a trial was added.
        """
        if self.choice is not None or not self._is_worth_refining(best):
            return False
        self._refined.add(best.name)
        self.bench.close()  # rounding takes memory
        refined = self.write(best.settings, best.written.keep_float, True)
        if not set(refined.rounded_adaptively) > set(best.written.rounded_adaptively):
            return False
        candidate = f"{best.name}, {ROUNDED_ADAPTIVELY}", best.settings, refined
        measured = self.bench.measured([candidate], self.max_drop, as_quick_as=best)
        self._outcome.curve += measured
        return bool(measured)

    def _is_worth_refining(self, best: Trial) -> bool:
        if best.written.quantized or best.size > LARGEST_REFINED or best.name.endswith(ROUNDED_ADAPTIVELY):
            return False
        if best.name in self._refined or f"{best.name}, {ROUNDED_ADAPTIVELY}" in self._names():
            return False  # it was refined already, which reduced no loss
        return best.size <= QUICKLY_REFINED or best.score.drop > NEXT_TO_NOTHING * self.max_drop

    def _try_half_precision(self) -> None:
        """Measure half precision now if no trial is fit or the choice is not; else leave it to :attr:`Outcome.last`."""
        held = {trial.name for trial in self._ranked()}
        if not held or self.choice not in {None, *held}:
            self._measure_half()
            self._confirm_best()
        elif self.in_half is not None:
            self._outcome.last = lambda: [trial for trial in self._measure_half() if self._is_fit(trial)]

    def _measure_half(self) -> list[Trial]:
        measured = self.bench.measured([self.in_half()], self.max_drop) if self.in_half is not None else []
        self._outcome.curve += measured
        return measured

    def _require_choice(self) -> None:
        if self.choice is not None and self.choice not in {trial.name for trial in self._outcome.held}:
            raise ChoiceError(
                "names a candidate that does not exist or does not hold the budget",
                subject="--like",
                expected=self.choice,
                found=" | ".join(trial.name for trial in self._outcome.curve),
                hint="leave --like out",
            )

    def _names(self) -> set[str]:
        return {trial.name for trial in self._outcome.curve}

    def _ranked(self) -> list[Trial]:
        """The fit trials, the choice first, then the best."""
        return sorted(_best_first(self._fit()), key=lambda trial: trial.name != self.choice)

    def _fit(self) -> list[Trial]:
        return [trial for trial in self._outcome.curve if self._is_fit(trial)]

    def _is_fit(self, trial: Trial) -> bool:
        """Whether a trial holds the budget and, with ``auto`` and unless it is the choice, beats float.

        It beats float if it is smaller and no slower.
        """
        worth_it = trial.is_smaller and not trial.is_slower
        return trial.score.drop <= self.max_drop and (trial.name == self.choice or not self.auto or worth_it)


def _best_first(trials: Sequence[Trial]) -> Iterator[Trial]:
    """The trials in order: each time the best of those that remain."""
    left = list(trials)
    while (best := _fastest(left)) is not None:
        yield best
        left = [trial for trial in left if trial is not best]


def _fastest(trials: Sequence[Trial]) -> Trial | None:
    """The fastest trial; of equally fast ones the smallest, of equally small ones the one with the least error.

    On a busy machine, trials count as equally fast if the noise of the measurements may have changed their order.

    A trial that is a little slower and has at most two thirds of the error's power is preferred, even if it is
    :data:`SLOWER_FOR_ACCURACY`, provided that it visibly loses less. If latencies were not measured, computing with
    integers is assumed to be faster than storing them, and 8-bit integers faster than 16-bit ones.
    """
    if not trials:
        return None
    if any(trial.latency_ms is None for trial in trials):
        with_integers = [trial for trial in trials if trial.written.quantized]
        narrow = [trial for trial in with_integers if not trial.settings.has_wide_activations]
        return _best_of(narrow or with_integers or trials)
    fastest = max(trials, key=lambda trial: trial.speedup)
    near, little_slower = (
        [trial for trial in trials if trial.speedup * (1 + max(share, _doubt(trial, fastest))) >= fastest.speedup]
        for share in (SAME_SPEED, LITTLE_SLOWER)
    )
    best = _best_of(near)
    far_better = [trial for trial in little_slower if trial.score.sqnr_db >= best.score.sqnr_db + FAR_BETTER_DB]
    best = _best_of(far_better or [best])
    more_accurate = [
        trial
        for trial in trials
        if _speedup_at_least(trial) * (1 + SLOWER_FOR_ACCURACY) >= fastest.speedup
        and trial.score.drop + VISIBLY_LESS < best.score.drop
        and trial.score.sqnr_db >= best.score.sqnr_db + FAR_BETTER_DB
    ]
    return max(more_accurate, key=lambda trial: trial.speedup) if more_accurate else best


def _speedup_at_least(trial: Trial) -> float:
    """How many times as fast as float a trial is; 1 at least if it only stores integers and is not clearly slower."""
    return trial.speedup if trial.written.quantized or trial.is_slower else max(trial.speedup, 1.0)


def _doubt(*trials: Trial) -> float:
    """The share by which speedups of trials may differ by the machine's noise alone; 0 if their turns agreed."""
    spread = max(trial.spread for trial in trials)
    return 0.0 if spread <= AS_QUICK else min(spread, MOST_IN_DOUBT)


def _best_of(trials: Sequence[Trial]) -> Trial:
    smallest = min(trial.size for trial in trials)
    return max(
        (trial for trial in trials if trial.size <= smallest * SAME_SIZE),
        key=lambda trial: (trial.score.sqnr_db, -trial.size),
    )
