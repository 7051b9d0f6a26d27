"""Finds the fastest model that holds the accuracy budget on the target, and is not slower than float."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from edgekit.errors import InputError
from edgekit_quantize.search.bench import AT_ONCE, Bench, Candidate, Trial
from edgekit_quantize.search.in_float import LayerNoise, cheapest_in_float, spares_much_work
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written

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
ONE_MORE = 2.0
"""Where nothing brings a near miss into the budget, but less than this multiple of it is lost, the next one is tried:
of few decisions a single one is more than the budget, and which one is another's is nearly luck."""
SAME_SIZE = 1.1
"""Sizes whose ratio is below this do not decide between candidates."""
HOPELESS = 20
"""A candidate that loses more than this multiple of the budget is not brought back by a few layers in float."""
LEAST_BUDGET = 1e-3
"""Of a smaller budget the candidates in reach are those of this one; with none at all there would be none."""
ROUNDING_LEAVES = 0.25
"""What is taken to remain of the loss at best where weights are rounded adaptively; a miss that this cannot bring back
is not tried with that alone. On OpenVINO, of five networks in integers 0.5 remained or more; on ONNX Runtime, of one
whose convolutions are only stored, 0.17."""
AIM = 0.7
"""Which part of the budget may be lost by what is left of the noise; weights lose the rest."""
BOLD_AIM = 0.95
"""Which part of the budget is tried at first, where that spares much work in float: PLCMOS holds the budget so without
its largest convolutions in float, and is 1.4 times as fast, not 0.8 times."""
LESS_NOISE = 3.0
"""By what factor less of the noise is left at most each time that the budget is not held."""
LITTLE_LESS_NOISE = 1.5
"""By what factor less of it is left at least, and where a form cannot be run or loses more than before: the runtime may
compute this one wrong, with one thread say, and another one right."""
FEWER_TRIES = 2
"""How often fewer layers in float are tried once the budget is held."""
LEAST_NOISE = 0.01
"""Less of the noise than this share is not worth more layers in float."""
FEW_IN_FLOAT = {0.0: 0.0, 0.1: 0.5}
"""As :data:`MANY_IN_FLOAT`; with none in float, weights are rounded adaptively."""
MANY_IN_FLOAT = {0.25: 0.25, 0.5: 0.1, 0.75: 0.0}
"""Shares of the numbers in stored weights that become float again where the budget is not held, and what remains of the
loss then at best; a share that cannot do is not tried. On five networks 0.3 to 0.75 of it remained with a fifth in
float."""

LARGEST_REFINED = 64 * 2**20
"""In bytes; rounding more weights with care takes minutes, and is done where nothing holds the budget without."""
QUICKLY_REFINED = 8 * 2**20
"""In bytes; so many are rounded with care in seconds."""
NEXT_TO_NOTHING = 0.1
"""The part of the budget that is not worth minutes: what is lost of that is not told from nothing."""
ROUNDED_ADAPTIVELY = "weights rounded adaptively"
Write = Callable[[Settings, Collection[str], bool], Written]


class StoredCosts(NamedTuple):
    """What it costs to store the weights of layers in float, by name, in the order in which they go back to float."""

    by_error: Mapping[str, float]
    """1 for each layer, the largest error first."""
    by_size: Mapping[str, float]
    """Numbers of each; the largest error for its size first."""


class Costs(Protocol):
    """What it costs to leave a candidate's layers in float."""

    def noises(self, of: Written, settings: Settings) -> Mapping[str, LayerNoise]:
        """Of each layer that computes with integers, by name."""

    def stored(self, of: Written, settings: Settings) -> StoredCosts:
        """Of the layers of a candidate that only stores weights as integers."""


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
    last: Callable[[], list[Trial]] | None = None
    """Measures the model in half precision, and gives it where it holds the budget and is worth it; for when none of
    those that hold the budget can ship. None where it was measured, or is none of the candidates."""

    @property
    def best(self) -> Trial | None:
        """None where nothing holds the budget."""
        return self.held[0] if self.held else None


def search(
    bench: Bench,
    candidates: Mapping[str, Settings],
    write: Write,
    costs: Costs,
    max_drop: float,
    *,
    auto: bool,
    choice: str | None = None,
    in_half: Callable[[], Candidate] | None = None,
    prefers_integers: bool = False,
) -> Outcome:
    """Measure the candidates, if it pays bring the fastest near miss into the budget, choose the fastest.

    The best one holds the budget in every setting: the best of those that hold it where they are timed is judged in the
    others, and where it does not hold it there, the next best is.

    Where nothing that is nearly as fast holds the budget, a near miss gets its weights rounded adaptively; then layers
    go back to float, those that leave little enough noise at the outputs and cost the least. Where that does not help
    either, layers whose weights are only stored as integers do. Where the best one only stores weights, they are
    rounded adaptively.

    Of candidates that are as fast as each other the smallest is chosen, and of those the one with the least error.

    Args:
        bench: What they are judged with.
        candidates: The settings of each, by name.
        write: Writes a candidate with the named layers kept in float, and with weights rounded adaptively if asked to.
        costs: What it costs to leave layers in float.
        max_drop: What may be lost of the metric.
        auto: Whether a candidate that is slower or no smaller than float is out.
        choice: The candidate that is the best whatever the times say; None where they decide.
        in_half: Writes the model in half precision, which is measured where no other holds the budget, or none of them
            is the choice, and by :attr:`Outcome.last` where none of the others can ship; None leaves it out.
        prefers_integers: Whether a near miss that computes with integers is brought into the budget though another
            candidate that only stores them holds it.

    Raises:
        edgekit.errors.InputError: The choice is none of those that hold the budget.
    """
    outcome = Outcome()

    def fit() -> list[Trial]:
        return [trial for trial in outcome.curve if is_fit(trial)]

    def is_fit(trial: Trial) -> bool:
        worth_it = trial.is_smaller and trial.speedup >= 1 - NOISE
        return trial.score.drop <= max_drop and (trial.name == choice or not auto or worth_it)

    def ranked() -> list[Trial]:
        return sorted(_ranked(fit()), key=lambda trial: trial.name != choice)

    def complete_best() -> None:
        while (held := ranked()) and not held[0].score.complete:
            if not bench.complete(held[0]):
                outcome.curve.remove(held[0])

    def time_again_unless_fit() -> None:
        """A few turns of a quick model, on a machine that does something else too, say little."""
        if not fit():
            bench.time_again([trial for trial in outcome.curve if trial.score.drop <= max_drop and trial.is_smaller])

    in_reach = max(max_drop, LEAST_BUDGET)
    at_once = len(candidates) if bench.executor is not None else AT_ONCE
    for first in range(0, len(candidates), at_once):
        some = [*candidates.items()][first : first + at_once]
        outcome.curve += bench.measured([(name, settings, write(settings, (), False)) for name, settings in some])
    time_again_unless_fit()
    complete_best()
    rivals = [trial for trial in fit() if trial.written.quantized or not prefers_integers]
    to_beat = WORTH_A_RESCUE * max((trial.speedup for trial in rivals), default=0.0)
    near = [trial for trial in outcome.curve if _is_near_miss(trial, max_drop)]
    misses = [trial for trial in near if trial.written.quantized and (trial.speedup > to_beat or not fit())]
    if choice is not None:
        misses = near = [trial for trial in outcome.curve if choice.startswith(f"{trial.name}, ")]

    def rescue(misses: Sequence[Trial]) -> None:
        if not misses:
            return
        fastest = max(trial.speedup for trial in misses)
        as_good = [trial for trial in misses if trial.speedup * (1 + RESCUE_SLOWER) >= fastest]
        first, *others = sorted(as_good, key=lambda trial: (trial.score.drop, -trial.score.sqnr_db))
        bring_into_budget(first)
        came_close = first.written.quantized and max_drop < loss_of(first, in_float=True) <= ONE_MORE * in_reach
        if others and came_close:
            bring_into_budget(others[0])

    def bring_into_budget(miss: Trial) -> None:
        if not miss.written.quantized:
            stored = costs.stored(miss.written, miss.settings)
            if bench.original is None and float_misses(miss, stored.by_error):
                return
            by_error = shares_in_float(miss, FEW_IN_FLOAT, stored.by_error)
            if not by_error and not shares_in_float(miss, MANY_IN_FLOAT, stored.by_error):
                shares_in_float(miss, MANY_IN_FLOAT, stored.by_size, ", small ones first")
            return
        out_of_reach = miss.score.drop * ROUNDING_LEAVES > in_reach
        held = not out_of_reach and holds(changed(miss, (), ROUNDED_ADAPTIVELY))
        if not held and not miss.settings.has_wide_activations:  # whose rounding adds next to nothing
            least_noise_in_float(miss)

    def float_misses(miss: Trial, layers: Collection[str]) -> bool:
        """Whether the budget is not held with all layers in float either: the target computes in half precision, say.

        Where latencies count, the target is this machine, which computes in single precision.
        """
        in_float = f"{miss.name}, all layers in float", miss.settings, write(miss.settings, layers, False)
        return any(trial.score.drop > max_drop for trial in bench.measured([in_float], max_drop))

    def least_noise_in_float(miss: Trial) -> None:
        """Layers go back to float, more of them each time, until the budget is held or nothing more is gained."""
        noises = costs.noises(miss.written, miss.settings)
        loss, left_before, may_be_wrong, too_much = loss_of(miss), 1.0, True, 1.0
        allowed = in_reach / max(loss, in_reach)
        share = (BOLD_AIM if spares_much_work(noises, (BOLD_AIM * allowed, AIM * allowed)) else AIM) * allowed
        while share >= LEAST_NOISE:
            in_float, left = cheapest_in_float(noises, share)
            less = LITTLE_LESS_NOISE
            if left < left_before and len(in_float) < len(noises):
                trial = with_in_float(miss, in_float)
                if trial is not None and holds(trial):
                    fewer_in_float(miss, trial, noises, share, too_much)
                    return
                left_before, too_much = left, share
                if trial is not None and trial.score.drop <= loss:
                    loss = trial.score.drop
                    less = min(max(loss / in_reach / AIM, LITTLE_LESS_NOISE), LESS_NOISE)
                elif may_be_wrong:
                    may_be_wrong = False
                else:
                    return
            share = AIM * allowed if share > AIM * allowed else share / less

    def fewer_in_float(
        miss: Trial, held: Trial, noises: Mapping[str, LayerNoise], share: float, too_much: float
    ) -> None:
        """Where a set loses far less than it may, others of fewer multiplications are tried, which are faster.

        Args:
            miss: What layers go back to float of.
            held: It with layers in float that hold the budget.
            noises: What its layers do to the outputs.
            share: Of the noise, what is left in ``held``.
            too_much: A share with which the budget is not held.
        """
        failed, _ = cheapest_in_float(noises, too_much)
        for _ in range(FEWER_TRIES):
            bolder = share * min(BOLD_AIM * in_reach / max(held.score.drop, LEAST_BUDGET), LESS_NOISE)
            if bolder >= too_much:
                bolder = math.sqrt(share * too_much)
            in_float, _ = cheapest_in_float(noises, bolder)
            if in_float == failed or not spares_much_work(noises, (bolder, share)):
                return
            trial = with_in_float(miss, in_float)
            if trial is not None and holds(trial):
                held, share = trial, bolder
            else:
                too_much, failed = bolder, in_float

    def with_in_float(miss: Trial, in_float: Collection[str]) -> Trial | None:
        text = _in_float_text(in_float)
        if any(trial.name == f"{miss.name}, {text}" for trial in outcome.curve):
            text = f"other {text}"
        return changed(miss, in_float, text)

    def loss_of(miss: Trial, *, in_float: bool = False) -> float:
        """The least that it loses, its weights rounded adaptively or not.

        Args:
            miss: A candidate.
            in_float: Whether its forms with layers in float count too.
        """
        names = {miss.name, f"{miss.name}, {ROUNDED_ADAPTIVELY}"}
        return min(
            trial.score.drop
            for trial in outcome.curve
            if trial.name in names or (in_float and trial.name.startswith(f"{miss.name}, "))
        )

    def shares_in_float(
        miss: Trial, shares: Mapping[float, float], by_layer: Mapping[str, float], order: str = ""
    ) -> bool:
        """Whether the budget is held with one of the shares of the layers in float."""
        tried = None
        for share, best_left in shares.items() if by_layer else ():
            in_float = _share_of(by_layer, share)
            if loss_of(miss) * best_left > in_reach or (share and not in_float):
                continue
            if len(in_float) in (tried, len(by_layer)):
                continue
            tried = len(in_float)
            change = f"{_in_float_text(in_float)}{order}" if in_float else ROUNDED_ADAPTIVELY
            if holds(changed(miss, in_float, change)):
                return True
        return False

    def changed(miss: Trial, in_float: Collection[str], change: str) -> Trial | None:
        """The miss with layers in float, its weights rounded adaptively unless that alone made it worse.

        None where it cannot be built or run.
        """
        rounded = f"{miss.name}, {ROUNDED_ADAPTIVELY}"
        adaptive = not any(trial.name == rounded and trial.score.drop > miss.score.drop for trial in outcome.curve)
        candidate = f"{miss.name}, {change}", miss.settings, write(miss.settings, in_float, adaptive)
        for trial in bench.measured([candidate], max_drop):
            if trial.score.drop > max_drop or bench.complete(trial):
                outcome.curve.append(trial)
                return trial
        return None

    def holds(trial: Trial | None) -> bool:
        return trial is not None and trial.score.drop <= max_drop

    def refine(best: Trial) -> None:
        """Where weights are only stored, all that is lost is lost by their rounding; better ones take no longer."""
        name = f"{best.name}, {ROUNDED_ADAPTIVELY}"
        refined = write(best.settings, best.written.keep_float, True)
        if set(refined.rounded_adaptively) > set(best.written.rounded_adaptively):
            for trial in bench.measured([(name, best.settings, refined)], max_drop):
                trial.latency_ms, trial.float_ms = best.latency_ms, best.float_ms  # the same operations
                outcome.curve.append(trial)

    def is_worth_refining(best: Trial) -> bool:
        if best.written.quantized or best.size > LARGEST_REFINED:
            return False
        return best.size <= QUICKLY_REFINED or best.score.drop > NEXT_TO_NOTHING * max_drop

    rescue(misses)
    if not fit():
        rescue([trial for trial in near if not trial.written.quantized])
    time_again_unless_fit()
    complete_best()
    held = ranked()
    if held and choice is None and is_worth_refining(held[0]):
        refine(held[0])
        complete_best()

    def measure_half() -> list[Trial]:
        measured = bench.measured([in_half()], max_drop) if in_half is not None else []
        outcome.curve += measured
        return measured

    if not held or choice not in {None, *(trial.name for trial in held)}:
        measure_half()
        time_again_unless_fit()
        complete_best()
    elif in_half is not None:
        outcome.last = lambda: [trial for trial in measure_half() if is_fit(trial)]
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


def _in_float_text(layers: Collection[str]) -> str:
    return f"{len(layers)} layer{'s' if len(layers) != 1 else ''} in float"


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
    computing with integers is taken to be faster than storing them, and with ones of 8 bits faster than of 16.
    """
    if not trials:
        return None
    if any(trial.latency_ms is None for trial in trials):
        with_integers = [trial for trial in trials if trial.written.quantized]
        narrow = [trial for trial in with_integers if not trial.settings.has_wide_activations]
        return _best_of(narrow or with_integers or trials)
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
