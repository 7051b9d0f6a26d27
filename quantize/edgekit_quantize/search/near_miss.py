"""Brings candidates that lose little more than the budget into it.

The weights of a near miss that computes with integers are rounded adaptively. If that is not enough, layers go back to
float: the set with the least cost that reduces the noise at the outputs sufficiently. In a near miss that only stores
weights as integers, weights are rounded adaptively, and the layers with the largest errors go back to float.
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
"""With a smaller budget, near misses are chosen as if it were LEAST_BUDGET; with a budget of 0 there would be none."""
HOPELESS = 20
"""A candidate that loses more than HOPELESS times the budget is not a near miss: a few layers in float cannot bring it
into the budget."""
RESCUE_SLOWER = 0.1
"""Among near misses that are slower than the fastest by less than this share, the one that loses the least is brought
into the budget; if several lose the same, the one with the least error, as it keeps more layers in integers."""
ONE_MORE = 2.0
"""If nothing brings a near miss into the budget, but its loss is at most ONE_MORE times the budget, the next near miss
is tried: with few decisions, a single one exceeds the budget, and which candidate changes it is nearly chance."""
ROUNDING_LEAVES = 0.25
"""The share of the loss that is assumed to remain at best after adaptive rounding; a near miss that this cannot bring
into the budget is not tried with adaptive rounding alone. On OpenVINO, 0.5 or more remained for five networks in
integers; on ONNX Runtime, 0.17 remained for one whose convolutions are only stored."""
AIM = 0.7
"""The share of the budget that the remaining noise of activations may use; the rounding of weights uses the rest."""
BOLD_AIM = 0.95
"""The share of the budget that is tried first instead of AIM if it saves much work in float: with it, PLCMOS holds the
budget without its largest convolutions in float, and is 1.4 times as fast as float, not 0.8 times."""
LEAST_NOISE = 0.01
"""No more layers go back to float once the remaining share of the noise would be below LEAST_NOISE."""
LEAST_IN_INTEGERS = 0.1
"""The share of the multiplications below which a form gains too little from its integers: if integer multiplications
took no time, it would be 1.1 times as fast as a candidate that only stores weights."""
LESS_NOISE = 3.0
"""The largest factor by which the remaining noise is reduced each time a form does not hold the budget."""
LITTLE_LESS_NOISE = 1.5
"""The smallest factor by which the remaining noise is reduced, also used if a form cannot be run or loses more than
before: the runtime may compute this form wrong, for example with one thread, and another form right."""
FASTER_THAN_TOLD = 1.5
"""How many times as fast as estimated from its layers' multiplications a form may be. Of eight forms of five networks,
one was 1.4 times as fast as estimated, the others 0.4 to 1.1 times."""
FEWER_TRIES = 2
"""How many times fewer layers in float are tried once the budget is held."""
FEW_IN_FLOAT = {0.0: 0.0, 0.1: 0.5}
"""The shares that are tried first, in the form of :data:`MANY_IN_FLOAT`; with the share 0, weights are only rounded
adaptively."""
MANY_IN_FLOAT = {0.25: 0.25, 0.5: 0.1, 0.75: 0.0}
"""Shares of the numbers in stored weights that become float again if the budget is not held, each with the part of the
loss that then remains at best; a share with which the rest still exceeds the budget is not tried. On five networks, 0.3
to 0.75 of the loss remained with a fifth in float."""
FEW_WEIGHTS = 0.25
"""The largest share of the numbers in stored weights that become float because they add nearly all of the noise: the
rest then saves more than half precision does."""
ROUNDED_ADAPTIVELY = "weights rounded adaptively"


class Costs(Protocol):
    """The costs of keeping a candidate's layers in float."""

    def noises(self, of: Written, settings: Settings) -> Mapping[str, LayerNoise]:
        """The noise and the cost of each layer that computes with integers, by name."""

    def stored(self, of: Written, settings: Settings) -> StoredCosts:
        """The costs of the layers of a candidate that only stores weights as integers."""

    def noises_of_stored(self, of: Written, settings: Settings, write: Write) -> Mapping[str, LayerNoise]:
        """The noise and the size of each layer whose weights are only stored; empty if that takes long to measure."""


def is_near_miss(trial: Trial, max_drop: float) -> bool:
    """Whether a candidate loses more than the budget, and at most as much as :func:`most_of_a_near_miss` returns."""
    return max_drop < trial.score.drop <= most_of_a_near_miss(max_drop)


def most_of_a_near_miss(max_drop: float) -> float:
    """The largest loss of a near miss; a candidate that loses more need not be timed."""
    return HOPELESS * _in_reach(max_drop)


def rescue(near_misses: Sequence[NearMiss]) -> None:
    """Bring a near miss into the budget: the one with the least loss, among those about as fast as the fastest.

    If none of its forms holds the budget, but one comes close, the next near miss is tried too.
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
    """The costs of keeping layers in float."""
    max_drop: float
    """The budget: how much of the metric may be lost."""
    to_beat: float = 0.0
    """How many times as fast as float the fastest candidate that holds the budget is; 0 if there is none."""

    @property
    def came_close(self) -> bool:
        """Whether the candidate computes with integers, and its best form misses the budget by little."""
        forms = [trial for trial in self.curve if trial.settings is self.trial.settings]
        least = min(trial.score.drop for trial in (self.trial, *forms))
        return bool(self.trial.written.quantized) and self.max_drop < least <= ONE_MORE * _in_reach(self.max_drop)

    def bring_into_budget(self) -> None:
        """Measure forms, the least changed ones first, until one holds the budget or there are no more to try."""
        if self.trial.written.quantized:
            self._bring_integers_into_budget()
        else:
            self._bring_stored_weights_into_budget()

    def _bring_integers_into_budget(self) -> None:
        out_of_reach = self.trial.score.drop * ROUNDING_LEAVES > _in_reach(self.max_drop)
        if not out_of_reach and self._holds(self._measured((), ROUNDED_ADAPTIVELY)):
            return
        if not self.trial.settings.has_wide_activations:  # rounding to 16 bits adds hardly any noise
            self._leave_less_noise()

    def _bring_stored_weights_into_budget(self) -> None:
        stored = self.costs.stored(self.trial.written, self.trial.settings)
        if self.bench.original is None and self._misses_in_float(stored.by_error):
            return
        if self._holds_with_a_share(FEW_IN_FLOAT, stored.by_error):
            return
        if self._holds_without_the_loudest():
            return
        if self._holds_with_a_share(MANY_IN_FLOAT, stored.by_error):
            return
        self._holds_with_a_share(MANY_IN_FLOAT, stored.by_size, ", small ones first")

    def _holds_without_the_loudest(self) -> bool:
        """Whether the form holds the budget that has the smallest weights in float that add nearly all of the noise."""
        in_reach, loss = _in_reach(self.max_drop), self._loss()
        noises = self.costs.noises_of_stored(self.trial.written, self.trial.settings, self.write)
        in_float, left = cheapest_in_float(noises, AIM * in_reach / max(loss, in_reach))
        size = sum(noises[layer].work for layer in in_float)
        if not in_float or left * loss > in_reach or size > FEW_WEIGHTS * sum(each.work for each in noises.values()):
            return False
        return self._holds(self._measured_in_float(in_float))

    def _leave_less_noise(self) -> None:
        """Measure forms with more and more layers in float, until one holds the budget or more layers gain nothing."""
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
                form = self._measured_in_float(in_float, as_it_ships=False)
                if self._holds(form):
                    form = self._boldest_that_ships(self._with_spared_work(form, noises, share, too_much))
                    if self._holds(form):
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
        """Whether hardly any multiplications use integers, while a candidate that only stores them loses no more."""
        in_integers = sum(each.work for name, each in noises.items() if name not in in_float)
        if in_integers >= LEAST_IN_INTEGERS * sum(each.work for each in noises.values()):
            return False
        return any(
            not other.written.quantized and other.score.drop <= self.trial.score.drop
            for other in self.curve
            if other.settings is not self.trial.settings
        )

    def _is_beaten(self, in_float: Collection[str], noises: Mapping[str, LayerNoise]) -> bool:
        """Whether a form with these layers in float is expected to be slower than a candidate that holds the budget.

        The time that the near miss saves is reduced by the layers' share of the multiplications.
        """
        total = sum(each.work for each in noises.values())
        share = sum(noises[name].work for name in in_float) / total if total else 0.0
        of_near_miss = 1 / self.trial.speedup
        expected = of_near_miss + share * (1 - of_near_miss)  # of float's time
        return FASTER_THAN_TOLD / expected < self.to_beat

    def _boldest_that_ships(self, forms: Sequence[Trial]) -> Trial | None:
        """The last of these forms that holds the budget in all settings; if none does, the first one.

        It is None if the first one cannot be run in one of the settings. To score a form in all settings may take
        longer than to score and time it in one, so that is done for the boldest form first.
        """
        for form in reversed(forms):
            if not self.bench.complete(form):
                self.curve.remove(form)
            elif self._holds(form):
                return form
        return next((trial for trial in self.curve if trial is forms[0]), None)

    def _with_spared_work(
        self, held: Trial, noises: Mapping[str, LayerNoise], share: float, too_much: float
    ) -> list[Trial]:
        """A form, and forms with other layers in float and fewer multiplications if it loses far less than the budget.

        Args:
            held: A form that holds the budget in the setting in which candidates are timed, as all returned forms do.
            noises: The noise that each layer adds to the outputs, and its cost in float.
            share: The share of the noise that remains in ``held``.
            too_much: A remaining share of the noise with which the budget is not held.
        """
        forms = [held]
        failed, _ = cheapest_in_float(noises, too_much)
        for _ in range(FEWER_TRIES):
            spare = BOLD_AIM * _in_reach(self.max_drop) / max(held.score.drop, LEAST_BUDGET)
            bolder = share * min(spare, LESS_NOISE)
            if bolder >= too_much:
                bolder = math.sqrt(share * too_much)
            in_float, _ = cheapest_in_float(noises, bolder)
            if in_float == failed or not spares_much_work(noises, (bolder, share)):
                break
            form = self._measured_in_float(in_float, as_it_ships=False)
            if self._holds(form):
                held, share = form, bolder
                forms.append(form)
            else:
                too_much, failed = bolder, in_float
        return forms

    def _holds_with_a_share(self, shares: Mapping[float, float], costs: Mapping[str, float], order: str = "") -> bool:
        """Whether a form with one of the shares of stored weights in float holds the budget.

        Args:
            shares: The shares to try, each with the part of the loss that remains at best.
            costs: The cost of each layer in float, in the order in which layers go back to float.
            order: A suffix of the forms' names that tells the order.
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
        """Whether the budget is missed even with all layers in float, as on a target that computes in half precision.

        This is only asked if latencies do not count: otherwise the target is this machine, which computes in float32.
        """
        settings = self.trial.settings
        in_float = self._name_with("all layers in float"), settings, self.write(settings, layers, False)
        return any(trial.score.drop > self.max_drop for trial in self.bench.measured([in_float], self.max_drop))

    def _measured_in_float(self, in_float: Collection[str], *, as_it_ships: bool = True) -> Trial | None:
        """Measures the form with these layers in float, under a name that no other form has; see :meth:`_measured`."""
        change = _in_float_text(in_float)
        if self._forms(change):
            change = f"other {change}"
        return self._measured(in_float, change, as_it_ships=as_it_ships)

    def _measured(self, in_float: Collection[str], change: str, *, as_it_ships: bool = True) -> Trial | None:
        """Measures the form with these layers in float, and adds it to the curve; None if it cannot be built or run.

        Weights are rounded adaptively, unless that alone made the near miss worse.

        Args:
            in_float: The layers in float.
            change: What the form's name says of it.
            as_it_ships: Whether a form that holds the budget in the setting in which candidates are timed is scored in
                the other settings too.
        """
        settings = self.trial.settings
        made_worse = any(form.score.drop > self.trial.score.drop for form in self._forms(ROUNDED_ADAPTIVELY))
        self.bench.close()  # rounding takes memory
        form = self._name_with(change), settings, self.write(settings, in_float, not made_worse)
        as_quick_as = None if in_float or self.trial.latency_ms is None else self.trial  # only the integers differ
        for trial in self.bench.measured([form], self.max_drop, as_quick_as=as_quick_as):
            if trial.score.drop > self.max_drop or not as_it_ships or self.bench.complete(trial):
                self.curve.append(trial)
                return trial
        return None

    def _holds(self, form: Trial | None) -> TypeGuard[Trial]:
        return form is not None and form.score.drop <= self.max_drop

    def _loss(self) -> float:
        """The loss without layers in float: with weights rounded to nearest or adaptively, whichever is less."""
        return min(trial.score.drop for trial in (self.trial, *self._forms(ROUNDED_ADAPTIVELY)))

    def _forms(self, change: str) -> list[Trial]:
        """The measured forms whose name says that they have this change."""
        return [trial for trial in self.curve if trial.name == self._name_with(change)]

    def _name_with(self, change: str) -> str:
        return f"{self.trial.name}, {change}"


def _in_reach(max_drop: float) -> float:
    """The budget by which forms are chosen: at least :data:`LEAST_BUDGET`."""
    return max(max_drop, LEAST_BUDGET)


def _in_float_text(layers: Collection[str]) -> str:
    return f"{len(layers)} layer{'s' if len(layers) != 1 else ''} in float"
