"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from edgekit_quantize.search.timing import AS_QUICK
from edgekit_quantize.settings import Settings

SAME_SPEED = 0.02
"""Candidates whose gains over the float model, timed beside each, differ by less than this share are as fast."""
MOST_IN_DOUBT = 0.15
"""The share up to which that grows on a machine so busy that turns of one model do not agree."""
LITTLE_SLOWER = 0.05
"""The share of the latency that may be given up for :data:`FAR_BETTER_DB`."""
FAR_BETTER_DB = 2.0
"""Two thirds of the error's power."""
SAME_SIZE = 1.1
"""Sizes whose ratio is below this do not decide between candidates."""
WORTH_A_RESCUE = 1.1
"""A near miss that is faster by more than this factor than all that hold the budget is brought into it."""
LARGEST_REFINED = 64 * 2**20
"""In bytes; rounding more weights with care takes minutes, and is done only if nothing holds the budget without."""
QUICKLY_REFINED = 8 * 2**20
"""In bytes; so many are rounded with care in seconds."""
NEXT_TO_NOTHING = 0.1
"""The part of the budget that is not worth minutes: a loss of less is not told from none."""


@dataclass
class Outcome:
    """The trials of a search, and the best of them."""

    held: list[Trial] = field(default_factory=list)
    """The trials that hold the budget and are worth it, the best first; all but the first may be judged in one setting
    only."""
    curve: list[Trial] = field(default_factory=list)
    """All that were tried and could be run."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why the others could not, by name."""
    unrestricted: Trial | None = None
    """The best one with weights whose sums may saturate in 16 bits: what keeping them from it costs."""
    last: Callable[[], list[Trial]] | None = None
    """Measures the model in half precision, and gives it if it holds the budget and is worth it; for when no trial that
    holds the budget can ship. None if it was measured, or is none of the candidates."""

    @property
    def best(self) -> Trial | None:
        """None if nothing holds the budget."""
        return self.held[0] if self.held else None

    def why_float(self, max_drop: float, given: str = "float") -> str:
        """Why no trial ships, where there is no best one: what is wrong with those that were tried.

        Args:
            max_drop: The budget.
            given: What the model is that candidates are held against.
        """
        if not self.curve:
            return "no candidate can be built and run for the target"
        if all(trial.has_no_weights for trial in self.curve):
            return "it has no weights that could be stored in fewer bits"
        held = [trial for trial in self.curve if trial.score.drop <= max_drop]
        if not held:
            return f"no candidate holds the accuracy budget, at most {max_drop:.2%} lost"
        flaws = [
            *([f"slower than {given} on this machine"] if any(trial.is_smaller for trial in held) else []),
            *([f"no smaller than {given}"] if not all(trial.is_smaller for trial in held) else []),
        ]
        return f"the candidates that hold the accuracy budget are {' or '.join(flaws)}"


@dataclass
class Search:
    """One search: measures candidates, brings the fastest near miss into the budget if it pays, chooses the fastest.

    The best one holds the budget in every setting: the best of the candidates that hold it in the setting in which they
    are timed is judged in the others, and if it does not hold it there, the next best is.

    If nothing that is nearly as fast holds the budget, a near miss is brought into it
    (:mod:`edgekit_quantize.search.near_miss`): one that computes with integers, or if that does not help, one that only
    stores weights. If the best one only stores weights, they are rounded adaptively.

    Of candidates that are as fast as each other the smallest is chosen, and of those the one with the least error.
    """

    bench: Bench
    """Measures candidates."""
    write: Write
    """Writes candidates."""
    costs: Costs
    """What it costs to leave layers in float."""
    max_drop: float
    """The budget: what may be lost of the metric."""
    _: KW_ONLY
    auto: bool
    """Whether a candidate that is slower or no smaller than float is out."""
    choice: str | None = None
    """The candidate that is the best whatever the times say; None if they decide."""
    in_half: Callable[[], Candidate] | None = None
    """Writes the model in half precision, which is measured if no other holds the budget, or none of them is the
    choice, and by :attr:`Outcome.last` if none of the others can ship; None leaves it out."""
    prefers_integers: bool = False
    """Whether a near miss that computes with integers is brought into the budget though another candidate that only
    stores them holds it."""
    _outcome: Outcome = field(default_factory=Outcome, init=False)
    _refined: set[str] = field(default_factory=set, init=False)
    """The names of those that were refined, or could not be."""

    def run(self, candidates: Mapping[str, Settings]) -> Outcome:
        """The best of the candidates and of the forms that were made of them.

        Args:
            candidates: The settings of each, by name.

        Raises:
            edgekit.quantizer.ChoiceError: The choice is none of the candidates that hold the budget.
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
            written = [(name, settings, self.write(settings, (), False)) for name, settings in some]
            self._outcome.curve += self.bench.measured(written, most_of_a_near_miss(self.max_drop))

    def _time_again_if_slow(self) -> None:
        """If nothing is fit, time once more what is only slow.

        A few turns of a quick model, on a machine that does something else too, say little.
        """
        if not self._fit():
            held = [trial for trial in self._outcome.curve if trial.score.drop <= self.max_drop]
            self.bench.time_again([trial for trial in held if trial.is_smaller])

    def _confirm_best(self) -> None:
        """Time once more what is only slow; then refine the best one, and judge it in all of its settings.

        Once refined, it is seldom the best one any more: judged before, it would be so in vain.
        """
        self._time_again_if_slow()
        while held := self._ranked():
            if self._refine(held[0]):
                continue
            if held[0].score.complete:
                return
            if not self.bench.complete(held[0]):
                self._outcome.curve.remove(held[0])

    def _rescue_near_misses(self) -> None:
        """Bring near misses into the budget, then judge the best one in all of its settings.

        Judged before, it would often be one that a rescued near miss is faster than. If it does not hold the budget
        there, a near miss that was not worth it may be now.
        """
        untried = self._names()
        self._rescue(untried)
        self._confirm_best()
        while self._rescue(untried):
            self._confirm_best()

    def _rescue(self, untried: set[str]) -> bool:
        """Bring a fast near miss that computes with integers into the budget; if nothing is fit then, any other one.

        Args:
            untried: The candidates that may be brought into it; those that were are taken out.

        Returns:
            Whether there was one.
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
        """The candidate whose form the choice is by its name; none where the choice is a candidate itself."""
        named = [trial for trial in self._outcome.curve if f"{choice}, ".startswith(f"{trial.name}, ")]
        closest = max(named, key=lambda trial: len(trial.name), default=None)
        return [] if closest is None or closest.name == choice else [closest]

    def _worth_a_rescue(self, near: Sequence[Trial]) -> list[Trial]:
        """The near misses that compute with integers, and are faster than what is fit."""
        to_beat = WORTH_A_RESCUE * self._to_beat()
        return [trial for trial in near if trial.written.quantized and trial.speedup > to_beat]

    def _to_beat(self) -> float:
        """How many times as fast as float the fastest candidate is that is fit; 0 where the times do not decide."""
        if self.choice is not None:
            return 0.0
        rivals = [trial for trial in self._fit() if trial.written.quantized or not self.prefers_integers]
        return max((trial.speedup for trial in rivals), default=0.0)

    def _near_miss(self, trial: Trial) -> NearMiss:
        to_beat = self._to_beat()
        return NearMiss(trial, self._outcome.curve, self.bench, self.write, self.costs, self.max_drop, to_beat)

    def _refine(self, best: Trial) -> bool:
        """If the best one only stores weights, round them adaptively, unless that takes long and gains next to nothing.

        All that is lost is lost by their rounding, and better ones take no longer to compute with.

        Returns:
            Whether there is one more trial.
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
            return False  # it was, and lost nothing less
        return best.size <= QUICKLY_REFINED or best.score.drop > NEXT_TO_NOTHING * self.max_drop

    def _try_half_precision(self) -> None:
        """Measure the model in half precision if nothing is fit, or not the choice; else leave it to the outcome."""
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
                "names a candidate that does not hold the budget, or is none",
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
        """Whether a trial holds the budget and is worth it: smaller than float and no slower, if that is asked for."""
        worth_it = trial.is_smaller and not trial.is_slower
        return trial.score.drop <= self.max_drop and (trial.name == self.choice or not self.auto or worth_it)


def _best_first(trials: Sequence[Trial]) -> Iterator[Trial]:
    """Each of them, the best of those that are left in front."""
    left = list(trials)
    while (best := _fastest(left)) is not None:
        yield best
        left = [trial for trial in left if trial is not best]


def _fastest(trials: Sequence[Trial]) -> Trial | None:
    """The fastest; of those that are as fast the smallest, of those that are as small the one with the least error.

    Where the machine was busy, those count as fast whose times the noise may have turned around.

    One that is little slower and has two thirds of the error, or less, is preferred to it. If no latency counts,
    computing with integers is taken to be faster than storing them, and with integers of 8 bits faster than of 16.
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
    return _best_of(far_better or [best])


def _doubt(*trials: Trial) -> float:
    """By which share the gains of trials may differ by the machine's noise alone: 0 where the turns of each agreed."""
    spread = max(trial.spread for trial in trials)
    return 0.0 if spread <= AS_QUICK else min(spread, MOST_IN_DOUBT)


def _best_of(trials: Sequence[Trial]) -> Trial:
    smallest = min(trial.size for trial in trials)
    return max(
        (trial for trial in trials if trial.size <= smallest * SAME_SIZE),
        key=lambda trial: (trial.score.sqnr_db, -trial.size),
    )
