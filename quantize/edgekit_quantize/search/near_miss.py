"""Brings candidates that lose little more than the budget into it.

A near miss that computes with integers gets its weights rounded adaptively; if that is not enough, layers go back to
float: those that leave little enough noise at the outputs and cost the least. Of a near miss that only stores weights
as integers, layers go back to float by their errors, their weights rounded adaptively too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from edgekit_quantize.search.bench import Bench, Trial, Write
from edgekit_quantize.search.in_float import (
    LayerNoise,
    StoredCosts,
    cheapest_in_float,
    first_in_float,
    spares_much_work,
)
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written

LEAST_BUDGET = 1e-3
"""Of a smaller budget the candidates in reach are those of this one; with none at all there would be none."""
HOPELESS = 20
"""A candidate that loses more than this multiple of the budget is not brought back by a few layers in float."""
RESCUE_SLOWER = 0.1
"""Of near misses that are slower by less than this share the one that has lost the least is brought into the budget; if
several have lost the same, the one with the least error: it keeps more of its layers."""
ONE_MORE = 2.0
"""If nothing brings a near miss into the budget, but less than this multiple of it is lost, the next one is tried: of
few decisions a single one is more than the budget, and which one is another's is nearly luck."""
ROUNDING_LEAVES = 0.25
"""The part of the loss that is taken to remain at best if weights are rounded adaptively; a miss that this cannot bring
back is not tried with that alone. On OpenVINO, of five networks in integers 0.5 remained or more; on ONNX Runtime, of
one whose convolutions are only stored, 0.17."""
AIM = 0.7
"""Which part of the budget may be lost by the noise that is left; weights lose the rest."""
BOLD_AIM = 0.95
"""Which part of the budget is tried at first, if that spares much work in float: PLCMOS holds the budget so without its
largest convolutions in float, and is 1.4 times as fast, not 0.8 times."""
LEAST_NOISE = 0.01
"""Less of the noise than this share is not worth more layers in float."""
LEAST_IN_INTEGERS = 0.1
"""The share of the multiplications below which a form gains too little by its integers: were they for nothing, it would
be 1.1 times as fast as a candidate that only stores weights."""
LESS_NOISE = 3.0
"""By what factor less of the noise is left at most each time that the budget is not held."""
LITTLE_LESS_NOISE = 1.5
"""By what factor less of the noise is left at least, and if a form cannot be run or loses more than before: the runtime
may compute this one wrong, with one thread say, and another one right."""
FASTER_THAN_TOLD = 1.5
"""How many times as fast as its layers' multiplications tell a form may be. Of eight forms of five networks one was 1.4
times as fast, the others 0.4 to 1.1 times."""
FEWER_TRIES = 2
"""How often fewer layers in float are tried once the budget is held."""
FEW_IN_FLOAT = {0.0: 0.0, 0.1: 0.5}
"""As :data:`MANY_IN_FLOAT`; with none in float, weights are rounded adaptively."""
MANY_IN_FLOAT = {0.25: 0.25, 0.5: 0.1, 0.75: 0.0}
"""Shares of the numbers in stored weights that become float again if the budget is not held, and the part of the loss
that then remains at best; a share that cannot do is not tried. On five networks 0.3 to 0.75 of it remained with a fifth
in float."""
ROUNDED_ADAPTIVELY = "weights rounded adaptively"


class Costs(Protocol):
    """What it costs to leave a candidate's layers in float."""

    def noises(self, of: Written, settings: Settings) -> Mapping[str, LayerNoise]:
        """Of each layer that computes with integers, by name."""

    def stored(self, of: Written, settings: Settings) -> StoredCosts:
        """Of the layers of a candidate that only stores weights as integers."""


def is_near_miss(trial: Trial, max_drop: float) -> bool:
    """Whether a candidate loses more than the budget, but not so much more that nothing brings it back."""
    return max_drop < trial.score.drop <= most_of_a_near_miss(max_drop)


def most_of_a_near_miss(max_drop: float) -> float:
    """What a near miss loses at most; how fast a candidate is that loses more does not matter."""
    return HOPELESS * _in_reach(max_drop)


def rescue(near_misses: Sequence[NearMiss]) -> None:
    """Bring a near miss into the budget: of those that are about as fast as the fastest, the one that loses the least.

    If its forms do not hold the budget but one comes close, the next near miss is tried too.
    """
    if not near_misses:
        return
    fastest = max(miss.trial.speedup for miss in near_misses)
    as_fast = [miss for miss in near_misses if miss.trial.speedup * (1 + RESCUE_SLOWER) >= fastest]
    first, *others = sorted(as_fast, key=lambda miss: (miss.trial.score.drop, -miss.trial.score.sqnr_db))
    first.bring_into_budget()
    if others and first.came_close:
        others[0].bring_into_budget()


@dataclass(frozen=True)
class NearMiss:
    """A candidate that loses little more than the budget, and its forms, which may lose less.

    A form has layers in float, or weights that are rounded adaptively, or both.
    """

    trial: Trial
    """The candidate as it was measured."""
    curve: list[Trial]
    """All trials of the search, the candidate among them; forms that can be built and run join them."""
    bench: Bench
    """Measures forms."""
    write: Write
    """Writes forms."""
    costs: Costs
    """What it costs to leave layers in float."""
    max_drop: float
    """The budget: what may be lost of the metric."""
    to_beat: float = 0.0
    """How many times as fast as float a candidate is that holds the budget; 0 where there is none to compare with."""

    @property
    def came_close(self) -> bool:
        """Whether it computes with integers, and the best of its forms misses the budget by little."""
        forms = [trial for trial in self.curve if trial.settings is self.trial.settings]
        least = min(trial.score.drop for trial in (self.trial, *forms))
        return bool(self.trial.written.quantized) and self.max_drop < least <= ONE_MORE * _in_reach(self.max_drop)

    def bring_into_budget(self) -> None:
        """Measure forms, the least changed ones first, until one of them holds the budget or none is left to try."""
        if self.trial.written.quantized:
            self._bring_integers_into_budget()
        else:
            self._bring_stored_weights_into_budget()

    def _bring_integers_into_budget(self) -> None:
        out_of_reach = self.trial.score.drop * ROUNDING_LEAVES > _in_reach(self.max_drop)
        if not out_of_reach and self._holds(self._measured((), ROUNDED_ADAPTIVELY)):
            return
        if not self.trial.settings.has_wide_activations:  # rounding these adds next to nothing
            self._leave_less_noise()

    def _bring_stored_weights_into_budget(self) -> None:
        stored = self.costs.stored(self.trial.written, self.trial.settings)
        if self.bench.original is None and self._misses_in_float(stored.by_error):
            return
        if self._holds_with_a_share(FEW_IN_FLOAT, stored.by_error):
            return
        if self._holds_with_a_share(MANY_IN_FLOAT, stored.by_error):
            return
        self._holds_with_a_share(MANY_IN_FLOAT, stored.by_size, ", small ones first")

    def _leave_less_noise(self) -> None:
        """Layers go back to float, more of them each time, until the budget is held or nothing more is gained."""
        noises = self.costs.noises(self.trial.written, self.trial.settings)
        in_reach, loss = _in_reach(self.max_drop), self._loss()
        allowed = in_reach / max(loss, in_reach)
        bold, aim = BOLD_AIM * allowed, AIM * allowed
        share = bold if spares_much_work(noises, (bold, aim)) else aim
        left_before = too_much = 1.0
        may_be_wrong = True
        while share >= LEAST_NOISE:
            in_float, left = cheapest_in_float(noises, share)
            if self._is_as_good_as_stored(in_float, noises) or self._is_beaten(in_float, noises):
                return
            less = LITTLE_LESS_NOISE
            if left < left_before and len(in_float) < len(noises):
                form = self._measured_in_float(in_float)
                if self._holds(form):
                    self._spare_work(form, noises, share, too_much)
                    return
                left_before, too_much = left, share
                if form is not None and form.score.drop <= loss:
                    loss = form.score.drop
                    less = min(max(loss / in_reach / AIM, LITTLE_LESS_NOISE), LESS_NOISE)
                elif may_be_wrong:
                    may_be_wrong = False
                else:
                    return
            share = aim if share > aim else share / less

    def _is_as_good_as_stored(self, in_float: Collection[str], noises: Mapping[str, LayerNoise]) -> bool:
        """Whether hardly any integers multiply, and a candidate is there that only stores them and loses less."""
        in_integers = sum(each.work for name, each in noises.items() if name not in in_float)
        if in_integers >= LEAST_IN_INTEGERS * sum(each.work for each in noises.values()):
            return False
        return any(
            not other.written.quantized and other.score.drop <= self.trial.score.drop
            for other in self.curve
            if other.settings is not self.trial.settings
        )

    def _is_beaten(self, in_float: Collection[str], noises: Mapping[str, LayerNoise]) -> bool:
        """Whether layers in float leave a form slower than a candidate that holds the budget.

        What the layers in float save of float's time, by their multiplications, is lost.
        """
        total = sum(each.work for each in noises.values())
        share = sum(noises[name].work for name in in_float) / total if total else 0.0
        of_near_miss = 1 / self.trial.speedup
        told = of_near_miss + share * (1 - of_near_miss)  # of float's time
        return FASTER_THAN_TOLD / told < self.to_beat

    def _spare_work(self, held: Trial, noises: Mapping[str, LayerNoise], share: float, too_much: float) -> None:
        """Try other layers in float that take fewer multiplications, if a form loses far less than it may.

        Args:
            held: A form that holds the budget.
            noises: What layers do to the outputs.
            share: The share of the noise that is left in ``held``.
            too_much: A share with which the budget is not held.
        """
        failed, _ = cheapest_in_float(noises, too_much)
        for _ in range(FEWER_TRIES):
            spare = BOLD_AIM * _in_reach(self.max_drop) / max(held.score.drop, LEAST_BUDGET)
            bolder = share * min(spare, LESS_NOISE)
            if bolder >= too_much:
                bolder = math.sqrt(share * too_much)
            in_float, _ = cheapest_in_float(noises, bolder)
            if in_float == failed or not spares_much_work(noises, (bolder, share)):
                return
            form = self._measured_in_float(in_float)
            if self._holds(form):
                held, share = form, bolder
            else:
                too_much, failed = bolder, in_float

    def _holds_with_a_share(self, shares: Mapping[float, float], costs: Mapping[str, float], order: str = "") -> bool:
        """Whether a form holds the budget that has one of the shares of the stored layers in float.

        Args:
            shares: The shares to try, each with the part of the loss that remains at best.
            costs: What each layer costs in float, in the order in which layers go back.
            order: Names the order in the forms' names.
        """
        tried = None
        for share, best_left in shares.items() if costs else ():
            in_float = first_in_float(costs, share)
            if self._loss() * best_left > _in_reach(self.max_drop) or (share and not in_float):
                continue
            if len(in_float) in (tried, len(costs)):
                continue
            tried = len(in_float)
            change = f"{_in_float_text(in_float)}{order}" if in_float else ROUNDED_ADAPTIVELY
            if self._holds(self._measured(in_float, change)):
                return True
        return False

    def _misses_in_float(self, layers: Collection[str]) -> bool:
        """Whether the budget is not held with all layers in float either: the target computes in half precision, say.

        If latencies count, the target is this machine, which computes in single precision.
        """
        settings = self.trial.settings
        in_float = self._name_with("all layers in float"), settings, self.write(settings, layers, False)
        return any(trial.score.drop > self.max_drop for trial in self.bench.measured([in_float], self.max_drop))

    def _measured_in_float(self, in_float: Collection[str]) -> Trial | None:
        """The form with layers in float, by a name that no other form has; see :meth:`_measured`."""
        change = _in_float_text(in_float)
        if self._forms(change):
            change = f"other {change}"
        return self._measured(in_float, change)

    def _measured(self, in_float: Collection[str], change: str) -> Trial | None:
        """The form with layers in float, its weights rounded adaptively unless that alone made the near miss worse.

        None if it cannot be built or run.
        """
        settings = self.trial.settings
        made_worse = any(form.score.drop > self.trial.score.drop for form in self._forms(ROUNDED_ADAPTIVELY))
        self.bench.close()  # rounding takes memory
        form = self._name_with(change), settings, self.write(settings, in_float, not made_worse)
        as_quick_as = None if in_float or self.trial.latency_ms is None else self.trial  # other integers alone
        for trial in self.bench.measured([form], self.max_drop, as_quick_as=as_quick_as):
            if trial.score.drop > self.max_drop or self.bench.complete(trial):
                self.curve.append(trial)
                return trial
        return None

    def _holds(self, form: Trial | None) -> TypeGuard[Trial]:
        return form is not None and form.score.drop <= self.max_drop

    def _loss(self) -> float:
        """What is lost without layers in float, weights rounded adaptively or not, whichever is less."""
        return min(trial.score.drop for trial in (self.trial, *self._forms(ROUNDED_ADAPTIVELY)))

    def _forms(self, change: str) -> list[Trial]:
        """The forms that were measured with a change, by their name."""
        return [trial for trial in self.curve if trial.name == self._name_with(change)]

    def _name_with(self, change: str) -> str:
        return f"{self.trial.name}, {change}"


def _in_reach(max_drop: float) -> float:
    """The budget that near misses are brought into: forms are tried for :data:`LEAST_BUDGET` if it is smaller."""
    return max(max_drop, LEAST_BUDGET)


def _in_float_text(layers: Collection[str]) -> str:
    return f"{len(layers)} layer{'s' if len(layers) != 1 else ''} in float"
