"""Which candidate is chosen, with runners that are as slow and as wrong as the test says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np
import pytest

from edgekit.model import Model
from edgekit.quantizer import CandidateError, Opened
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.bench import Bench, Trial
from edgekit_quantize.search.in_float import LayerNoise, StoredCosts
from edgekit_quantize.search.score import EXPLAINED, HeadKept, Score
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written
from tests.quantize.edgekit_quantize.search.slow_runners import (
    CLOCK,
    FLOAT_S,
    FLOAT_SIZE,
    ONES,
    SIZE,
    Broken,
    Busy,
    Disturbed,
    Slow,
    Unsteady,
    chosen,
    model_of,
)


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ({"fast": Slow(FLOAT_S / 4, 0.01), "slower": Slow(FLOAT_S / 2, 0.0)}, "fast"),
        ({"fast but wrong": Slow(FLOAT_S / 4, 0.9), "slower": Slow(FLOAT_S / 2, 0.01)}, "slower"),
        ({"slower than float": Slow(2 * FLOAT_S, 0.0)}, None),
        ({"wrong": Slow(FLOAT_S / 4, 2.0)}, None),
        ({"worse": Slow(FLOAT_S / 4, 0.09), "better": Slow(FLOAT_S / 4, 0.01)}, "better"),
        ({"fastest": Slow(FLOAT_S / 4, 0.09), "little slower": Slow(FLOAT_S / 4 * 1.03, 0.01)}, "little slower"),
        ({"fastest": Slow(FLOAT_S / 4, 0.09), "slower": Slow(FLOAT_S / 4 * 1.2, 0.01)}, "fastest"),
        # 0.8 % of the variance are worth an eighth of the time, and 0.08 % are not
        ({"fastest": Slow(FLOAT_S / 4, 0.09), "slower": Slow(FLOAT_S / 4 * 1.12, 0.01)}, "slower"),
        ({"fastest": Slow(FLOAT_S / 4, 0.03), "slower": Slow(FLOAT_S / 4 * 1.12, 0.01)}, "fastest"),
        # 1.5 dB are too little to take longer for
        ({"fastest": Slow(FLOAT_S / 4, 0.06), "little slower": Slow(FLOAT_S / 4 * 1.04, 0.05)}, "fastest"),
        ({"no smaller than float": Slow(FLOAT_S / 4, 0.0, FLOAT_SIZE), "slower": Slow(FLOAT_S / 2, 0.0)}, "slower"),
        ({"smaller": Slow(FLOAT_S / 4, 0.05, 80), "better": Slow(FLOAT_S / 4, 0.045, 100)}, "smaller"),
        ({"little smaller": Slow(FLOAT_S / 4, 0.05, 95), "better": Slow(FLOAT_S / 4, 0.045, 100)}, "better"),
        ({"larger": Slow(FLOAT_S / 4, 0.05, 100), "as good": Slow(FLOAT_S / 4, 0.05, 95)}, "as good"),
        # as slow as float but for the noise of timing
        ({"as fast": Slow(FLOAT_S * 1.04, 0.0)}, "as fast"),
        ({"slower": Slow(FLOAT_S * 1.06, 0.0)}, None),
    ],
)
def test_the_fastest_that_is_good_enough(candidates: dict[str, Slow], best: str | None) -> None:
    outcome = chosen(candidates)

    assert (outcome.best.name if outcome.best else None) == best
    assert [trial.name for trial in outcome.curve][: len(candidates)] == list(candidates)


def test_where_no_latency_counts_integers_of_8_bits_are_taken_to_be_the_fastest() -> None:
    candidates = {"16 bits": Slow(FLOAT_S, 0.01), "8 bits": Slow(FLOAT_S, 0.05)}

    outcome = chosen(candidates, activations={"16 bits": "uint16"}, timed=False)

    assert [trial.name for trial in outcome.held] == ["8 bits", "16 bits"]


@pytest.mark.parametrize(
    ("choice", "forms"),
    [("integers, LSTM too", []), ("integers, LSTM too, weights rounded adaptively", [", weights rounded adaptively"])],
)
def test_a_choice_is_no_form_of_another_candidate_that_is_called_alike(choice: str, forms: list[str]) -> None:
    alike = Slow(FLOAT_S / 2, 0.14 if forms else 0.01)

    def written(keep_float: Collection[str], adaptive: bool) -> None:
        alike.error = 0.0 if adaptive else alike.error

    candidates = {"integers": Slow(FLOAT_S / 4, 0.14), "integers, LSTM too": alike}
    outcome = chosen(candidates, choice=choice, written=written)

    assert outcome.best is not None
    assert outcome.best.name == choice
    assert [trial.name for trial in outcome.curve] == [*candidates, *(f"integers, LSTM too{form}" for form in forms)]


SLOWER, NO_SMALLER = {"slower": Slow(2 * FLOAT_S, 0.0)}, {"no smaller": Slow(FLOAT_S / 4, 0.0, FLOAT_SIZE)}
SLOWER_TOO = {"slower too": Slow(3 * FLOAT_S, 0.0)}


@pytest.mark.parametrize(
    ("candidates", "reason"),
    [
        (SLOWER, "the only candidate that holds the accuracy budget, 'slower', is slower than float on this machine"),
        (NO_SMALLER, "the only candidate that holds the accuracy budget, 'no smaller', is no smaller than float"),
        (SLOWER | SLOWER_TOO, "the candidates that hold the accuracy budget are slower than float on this machine"),
        (
            SLOWER | NO_SMALLER,
            "the candidates that hold the accuracy budget are slower than float on this machine or "
            "no smaller than float",
        ),
    ],
)
def test_a_model_is_left_in_float_for_all_that_is_wrong_with_the_candidates(
    candidates: dict[str, Slow], reason: str
) -> None:
    outcome = chosen(candidates)

    assert outcome.best is None
    assert outcome.why_float(0.1) == reason
    assert outcome.why_float(0.1, "the given one") == reason.replace("float", "the given one")


def test_trees_are_left_in_float_as_they_have_no_weights() -> None:
    outcome = chosen({"the same": Slow(FLOAT_S, 0.0)})
    outcome = replace(outcome, curve=[replace(trial, size=0, float_size=0) for trial in outcome.curve])
    assert outcome.why_float(0.1) == "the model has no weights that could be stored in fewer bits"


DISTURBED_ONCE, DISTURBED_LONG = 40, 170
"""Numbers of runs at ten times the latency: more than the first timing, and more than all until float16 is tried."""


@pytest.mark.parametrize(("error", "best"), [(0.04, "weights, weights rounded adaptively"), (0.2, "weights")])
def test_a_form_that_was_fitted_to_a_part_of_the_samples_has_to_hold_the_budget_on_the_others(
    error: float, best: str
) -> None:
    """With the samples that it was fitted to, ten times as large, its error of 0.2 is 0.04 % of the variance."""
    runner = Slow(FLOAT_S * 0.9, 0.3)

    def written(keep_float: Collection[str], adaptive: bool) -> None:
        runner.error = error if adaptive else runner.error

    part = Scorer(References.of([Reference({"x": ONES}, {"y": ONES})]), EXPLAINED, 1.0)
    outcome = chosen(
        {"weights": runner},
        answer=10 * ONES,
        stored=StoredCosts({"layer": 1.0}, {}),
        written=written,
        of_part=Judge(part, lambda model: runner),
    )

    assert [trial.name for trial in outcome.curve] == ["weights", "weights, weights rounded adaptively"]
    assert outcome.curve[1].score.drop == pytest.approx(error**2, rel=0.01)
    assert outcome.best is not None
    assert outcome.best.name == best


def test_a_near_miss_that_was_brought_into_the_budget_while_the_machine_was_busy_is_timed_again() -> None:
    near = Disturbed(FLOAT_S * 0.9, 0.14, runs=0)

    def written(keep_float: Collection[str], adaptive: bool) -> None:
        if adaptive:
            near.error, near.runs = 0.0, 30

    outcome = chosen({"near": near}, stored=StoredCosts({"layer": 1.0, "other": 1.0}, {}), written=written)

    assert outcome.best is not None
    assert outcome.best.name == "near, weights rounded adaptively"


@pytest.mark.parametrize("form", [Slow(2 * FLOAT_S, 0.0), Slow(FLOAT_S / 4, 0.0, 2 * FLOAT_SIZE)])
def test_what_was_asked_for_may_be_slower_or_larger(form: Slow) -> None:
    assert chosen({"asked for": form}, auto=False).best is not None


@pytest.mark.parametrize(("quickly", "error", "tried"), [(SIZE, 0.01, True), (0, 0.01, False), (0, 0.05, True)])
def test_many_stored_weights_are_rounded_with_care_where_the_budget_is_strained(
    monkeypatch: pytest.MonkeyPatch, quickly: int, error: float, tried: bool
) -> None:
    """It takes minutes, and of an error of 0.01 the budget of 0.01 sees a hundredth."""
    monkeypatch.setattr("edgekit_quantize.search.search.QUICKLY_REFINED", quickly)
    asked: list[bool] = []
    stored = StoredCosts({"a layer": 1.0}, {"a layer": 1.0})
    outcome = chosen(
        {"stored": Slow(FLOAT_S / 4, error)},
        stored=stored,
        written=lambda keep_float, adaptive: asked.append(adaptive),
    )
    assert outcome.held[0].name == "stored"
    assert (True in asked) is tried


@pytest.mark.parametrize(("share", "tried"), [(0.25, 4), (0.89, 4), (0.95, 2)])
def test_a_near_miss_gets_more_care_only_where_it_is_a_tenth_faster_than_what_holds(share: float, tried: int) -> None:
    outcome = chosen({"near": Slow(FLOAT_S * share, 0.19), "holds": Slow(FLOAT_S, 0.0)})

    assert len(outcome.curve) == tried
    assert outcome.best is not None
    assert outcome.best.name == "holds"


@pytest.mark.parametrize(
    ("layers", "only_stored", "tried"),
    [
        ({"large": LayerNoise(99, 95), "small": LayerNoise(1, 5)}, ["stored"], False),
        ({"large": LayerNoise(99, 85), "small": LayerNoise(1, 15)}, ["stored"], True),
        ({"large": LayerNoise(99, 95), "small": LayerNoise(1, 5)}, [], True),
    ],
)
def test_integers_for_a_tenth_of_the_work_are_not_tried_where_weights_can_be_stored_alone(
    layers: Mapping[str, LayerNoise], only_stored: Collection[str], tried: bool
) -> None:
    """Were the integers for nothing, the form would be 1.05 times as fast (Amdahl's law)."""
    candidates = {"near": Slow(FLOAT_S / 2, 0.19), "stored": Slow(FLOAT_S, 0.15)}
    outcome = chosen(candidates, layers=layers, only_stored=only_stored)
    assert ("near, 1 layer in float" in [trial.name for trial in outcome.curve]) is tried


def test_a_candidate_that_cannot_be_run_does_not_end_the_search() -> None:
    outcome = chosen({"broken": Broken(0, 0), "works": Slow(FLOAT_S / 2, 0.01), "exact": Slow(FLOAT_S, 0.0)})
    assert outcome.failed == {"broken": "cannot be run: no kernel"}
    assert [trial.name for trial in outcome.curve] == ["works", "exact"]
    assert [trial.name for trial in outcome.held] == ["works", "exact"]


def test_a_candidate_has_to_be_accurate_in_every_setting() -> None:
    on_one_thread, on_two = Slow(FLOAT_S / 2, 0.9, executed_by="one thread"), Slow(FLOAT_S / 4, 0.0)
    outcome = chosen({"garbage on one thread": Opened(on_two, lambda: on_one_thread), "exact": Slow(FLOAT_S, 0.0)})
    assert [trial.name for trial in outcome.held] == ["exact"]
    (garbage, _) = outcome.curve
    assert garbage.score.value == pytest.approx(1 - 0.9**2, abs=1e-6)
    assert garbage.latency_ms == pytest.approx(1e3 * FLOAT_S / 4)


def test_what_seems_slower_than_float_is_timed_again() -> None:
    disturbed = Disturbed(FLOAT_S / 2, 0.0, runs=DISTURBED_ONCE)
    outcome = chosen({"disturbed": disturbed, "slow": Slow(2 * FLOAT_S, 0.0)})
    assert [trial.name for trial in outcome.held] == ["disturbed"]
    assert outcome.held[0].latency_ms == pytest.approx(1e3 * FLOAT_S / 2)


def test_what_is_timed_again_and_evaluated_as_it_ships_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    original = Judge.open
    monkeypatch.setattr(Judge, "open", lambda judge, model: opened.append(model) or original(judge, model))
    shipped = Slow(FLOAT_S / 2, 0.0, executed_by="as it ships")
    disturbed = Disturbed(FLOAT_S / 2, 0.0, runs=DISTURBED_ONCE)

    outcome = chosen({"disturbed": Opened(disturbed, lambda: shipped)})

    assert outcome.best is not None
    assert outcome.best.timed_again
    assert outcome.best.score.complete
    assert len(opened) == 1


def test_integers_that_are_slower_than_float_by_all_turns_are_timed_again_once() -> None:
    told: list[str] = []
    outcome = chosen({"slow": Slow(2 * FLOAT_S, 0.0)}, progress=lambda what, *_: told.append(what))
    assert outcome.best is None
    assert sum(what.endswith("timing candidates") for what in told) == 2


@pytest.mark.parametrize(
    ("form", "integers", "kept"),
    [
        (Unsteady(FLOAT_S * 1.1, 0.0), False, True),
        (Unsteady(FLOAT_S * 1.1, 0.0), True, False),
        (Unsteady(FLOAT_S * 3, 0.0), False, False),
        (Slow(FLOAT_S * 1.1, 0.0), False, False),
    ],
)
def test_stored_weights_have_the_benefit_of_the_doubt_where_turns_do_not_agree(
    form: Slow, integers: bool, kept: bool
) -> None:
    """They are computed with in float: 1.1 times as long says nothing where turns differ by more than a tenth."""
    outcome = chosen({"form": form}, stored=None if integers else StoredCosts({"layer": 1.0}, {}))
    assert bool(outcome.held) is kept
    assert outcome.curve[0].as_record()["is_slower"] is not kept


@pytest.mark.parametrize(
    ("accurate", "best"),
    [
        (Unsteady(FLOAT_S / 4, 0.01), "accurate"),
        (Unsteady(FLOAT_S / 4 * 1.05, 0.01), "accurate"),
        (Slow(FLOAT_S / 4 * 1.1, 0.01), "fast"),
        (Unsteady(FLOAT_S / 4 * 1.2, 0.01), "fast"),
    ],
)
def test_the_one_with_the_least_error_is_chosen_where_noise_may_have_made_the_other_the_fastest(
    accurate: Slow, best: str
) -> None:
    """The accurate one takes at least as much longer as is given; turns that do not agree leave 15 % in doubt."""
    outcome = chosen({"fast": Slow(FLOAT_S / 4, 0.03), "accurate": accurate})
    assert outcome.held[0].name == best


def test_on_a_busy_machine_those_that_may_be_the_best_are_timed_together() -> None:
    """What disturbs the first two is over when the third one is timed."""
    fastest = Busy(FLOAT_S / 4, 0.01, disturbed=100)
    candidates = {"fastest": fastest, "wrong": Slow(FLOAT_S, 0.9), "undisturbed": Slow(FLOAT_S / 2, 0.01)}
    outcome = chosen(candidates)
    assert outcome.held[0].name == "fastest"
    assert outcome.held[0].speedup == pytest.approx(4, rel=0.05)


def test_stored_weights_are_rounded_adaptively_though_they_seem_slower_than_float_at_first() -> None:
    stored = StoredCosts({"layer": 1.0}, {})
    outcome = chosen({"disturbed": Disturbed(FLOAT_S / 2, 0.0, runs=DISTURBED_LONG)}, stored=stored)
    assert {trial.name for trial in outcome.held} == {"disturbed", "disturbed, weights rounded adaptively"}


def test_stored_weights_whose_rounding_loses_nothing_are_rounded_adaptively_once() -> None:
    """Both lose nothing, so that the form that was written first stays the best one."""
    outcome = chosen({"stored": Slow(FLOAT_S / 2, 0.0)}, stored=StoredCosts({"layer": 1.0}, {}))
    assert [trial.name for trial in outcome.curve] == ["stored", "stored, weights rounded adaptively"]


def test_stored_weights_that_are_rounded_adaptively_are_not_timed_again() -> None:
    told: list[str] = []
    stored = StoredCosts({"layer": 1.0}, {})
    outcome = chosen({"stored": Slow(FLOAT_S / 2, 0.0)}, stored=stored, progress=lambda what, *_: told.append(what))
    first, refined = outcome.curve
    assert (refined.latency_ms, refined.float_ms) == (first.latency_ms, first.float_ms)
    assert sum(what.endswith("timing candidates") for what in told) == 1


def test_what_loses_too_much_to_be_brought_into_the_budget_is_not_timed() -> None:
    candidates = {"wrong": Slow(FLOAT_S / 4, 0.9), "near": Slow(FLOAT_S / 4, 0.44), "right": Slow(FLOAT_S / 2, 0.0)}

    outcome = chosen(candidates)  # of a budget of 1 %, a loss of 81 % and of 19 %

    timed = {trial.name: trial.latency_ms is not None for trial in outcome.curve if trial.name in candidates}
    assert timed == {"wrong": False, "near": True, "right": True}
    assert outcome.best is not None
    assert outcome.best.name == "right"


def test_stored_weights_are_judged_as_they_ship_once_they_are_rounded_adaptively() -> None:
    told: list[str] = []
    timed, shipped = Slow(FLOAT_S / 2, 0.05), Slow(FLOAT_S / 2, 0.01, executed_by="as it ships")

    def written(keep_float: Collection[str], adaptive: bool) -> None:
        timed.error = 0.0 if adaptive else timed.error

    outcome = chosen(
        {"stored": Opened(timed, lambda: shipped)},
        stored=StoredCosts({"layer": 1.0}, {}),
        written=written,
        progress=lambda what, *_: told.append(what.split("; ")[-1]),
    )

    refined = "stored, weights rounded adaptively"
    assert [(trial.name, trial.score.complete) for trial in outcome.held] == [(refined, True), ("stored", False)]
    assert [what for what in told if what.endswith("as it ships")] == [f"evaluating {refined!r} as it ships"]


def test_only_the_best_candidate_is_opened_in_the_settings_that_are_not_timed() -> None:
    opened = []

    def others(name: str, error: float) -> Callable[[], Slow]:
        return lambda: opened.append(name) or Slow(FLOAT_S, error, executed_by="as it ships")

    outcome = chosen(
        {
            "fast, garbage as it ships": Opened(Slow(FLOAT_S / 4, 0.0), others("garbage", 0.9)),
            "next": Opened(Slow(FLOAT_S / 3, 0.05), others("next", 0.08)),
            "slow": Opened(Slow(FLOAT_S / 2, 0.0), others("slow", 0.0)),
        }
    )

    assert opened == ["garbage", "next"]
    assert [trial.name for trial in outcome.held] == ["next", "slow"]
    assert outcome.held[0].score.value == pytest.approx(1 - 0.08**2, abs=1e-6)  # the worse of the two
    assert not outcome.held[1].score.complete


def test_a_candidate_that_cannot_be_opened_as_it_ships_is_left_out() -> None:
    def refused() -> Slow:
        raise CandidateError("cannot be loaded: no kernel")

    outcome = chosen({"fast": Opened(Slow(FLOAT_S / 4, 0.0), refused), "exact": Slow(FLOAT_S / 2, 0.0)})
    assert outcome.failed == {"fast": "cannot be loaded: no kernel"}
    assert [trial.name for trial in outcome.curve] == ["exact"]
    assert [trial.name for trial in outcome.held] == ["exact"]


def test_who_waits_is_told_the_nearest_candidate_so_far() -> None:
    told: list[str] = []
    shipped = Slow(FLOAT_S / 2, 0.01, executed_by="as it ships")

    chosen(
        {"holds": Opened(Slow(FLOAT_S / 2, 0.0), lambda: shipped), "near": Slow(FLOAT_S / 8, 0.19)},
        progress=lambda what, done, total: told.append(what),
    )

    so_far = "so far 'holds', explained 100.00% (float 100.00%); "
    assert told == [
        "evaluating 'holds' and 'near'",
        f"{so_far}timing candidates",
        f"{so_far}evaluating 'near, weights rounded adaptively'",
        f"{so_far}evaluating 'near, 1 layer in float'",
        f"{so_far}evaluating 'holds' as it ships",
    ]


def test_who_waits_is_told_what_the_nearest_candidate_loses_of_another_head() -> None:
    told: list[str] = []
    score = Score("agreement", 1.0, 1.0, 30.0, heads={"root": HeadKept(0.97, 1000)})
    bench = Bench(
        Judge(Scorer(References.of([]), "agreement", 1.0)),
        Model(model_of(FLOAT_SIZE)),
        Slow(FLOAT_S, 0.0),
        progress=lambda what, done, total: told.append(what),
        nearest=Trial("near", Settings(), Written(model_of(SIZE), []), score),
    )
    assert bench.measured([]) == []
    assert told == ["so far 'near', agreement 100.00% (float 100.00%), 3.00% of root lost; evaluating "]


class SlowOnLong(Slow):
    """A runner that takes 1.5 times as long on more than four numbers."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        CLOCK.seconds += self.seconds / 2 if feeds["x"].size > 4 else 0
        return super().run(feeds)


def test_candidates_are_timed_on_samples_of_several_sizes() -> None:
    samples = [np.ones(size, np.float32) for size in (4, 4, 9)]
    references = References.of([Reference({"x": sample}, {"y": sample}) for sample in samples])
    judge = Judge(Scorer(references, "explained", 1.0), lambda model: SlowOnLong(0.9 * FLOAT_S, 0.0))
    bench = Bench(judge, Model(model_of(FLOAT_SIZE)), Slow(FLOAT_S, 0.0), clock=CLOCK)
    (trial,) = bench.measured([("stored", Settings(), Written(model_of(SIZE), []))])
    assert trial.float_ms == pytest.approx(1e3 * FLOAT_S)
    assert trial.latency_ms == pytest.approx(1e3 * FLOAT_S * 0.9 * (1 + 1.5) / 2)
    assert trial.is_slower


def rescued(near: Slow) -> Callable[[Collection[str], bool], None]:
    """Replaces what happens to a near miss while it is written: adaptive rounding of its weights leaves no error."""

    def written(keep_float: Collection[str], adaptive: bool) -> None:
        near.error = 0.0 if adaptive else near.error

    return written


def test_what_a_rescued_near_miss_is_faster_than_is_not_judged_as_it_would_ship() -> None:
    judged, near = [], Slow(FLOAT_S / 8, 0.14)

    def as_it_ships() -> Slow:
        judged.append("slower")
        return Slow(FLOAT_S, 0.0, executed_by="as it ships")

    candidates = {"slower": Opened(Slow(FLOAT_S / 2, 0.0), as_it_ships), "near": near}
    outcome = chosen(candidates, written=rescued(near))

    assert [trial.name for trial in outcome.held] == ["near, weights rounded adaptively", "slower"]
    assert judged == []


def test_a_near_miss_is_worth_a_rescue_where_the_faster_candidate_does_not_hold_as_it_ships() -> None:
    near, garbage = Slow(FLOAT_S / 3, 0.14), Slow(FLOAT_S, 0.9, executed_by="as it ships")

    candidates = {"fast": Opened(Slow(FLOAT_S / 8, 0.0), lambda: garbage), "near": near}
    outcome = chosen(candidates, written=rescued(near))

    assert [trial.name for trial in outcome.held] == ["near, weights rounded adaptively"]
