"""Which forms of a near miss are tried, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from edgekit.model import Model
from edgekit.quantizer import Opened
from edgekit_quantize.accounts.account import INTEGERS, LayerAccount
from edgekit_quantize.calibration.references import References
from edgekit_quantize.search.bench import Bench, Trial
from edgekit_quantize.search.in_float import LayerNoise, StoredCosts
from edgekit_quantize.search.near_miss import NearMiss
from edgekit_quantize.search.score import AGREEMENT, Score
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written
from tests.quantize.edgekit_quantize.search.slow_runners import CLOCK, FLOAT_S, CostsAsTold, Slow, chosen, model_of


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (0.14, [2, 5, 10, 15]),  # 1.96 % are lost, 1 % is allowed; at best a half remains
        (0.19, [5, 10, 15]),
        (0.25, [10, 15]),
    ],
)
def test_of_stored_weights_those_in_front_become_float_as_many_as_can_do(error: float, counts: list[int]) -> None:
    tried: list[tuple[list[str], bool]] = []
    layers = [f"layer {number}" for number in range(20)]  # the layer of the largest error first

    outcome = chosen(
        {"near": Slow(FLOAT_S / 4, error)},
        max_drop=0.01,
        stored=StoredCosts(dict.fromkeys(layers, 1.0), {}),
        written=lambda keep_float, adaptive: tried.append((list(keep_float), adaptive)),
    )

    assert tried == [([], False), ([], True), *((layers[:count], True) for count in counts)]
    assert outcome.curve[2].name == f"near, {counts[0]} layers in float"


@pytest.mark.parametrize(
    ("size", "kept"),
    [
        (24, [["loud"]]),  # 24 of 100 numbers become float, and 3 of 100 parts of the noise are left
        (26, [["layer 0", "layer 1", "layer 2"]]),  # the shares of layers that leave as much of the loss as is known
    ],
)
def test_of_stored_weights_small_ones_that_add_nearly_all_of_the_noise_become_float(
    size: int, kept: list[list[str]]
) -> None:
    """With 14% lost and 1% allowed, no share of layers below three quarters would do by the share alone."""
    tried: list[list[str]] = []
    chosen(
        {"near": Slow(FLOAT_S / 4, 0.374)},
        stored=StoredCosts({f"layer {number}": 1.0 for number in range(4)}, {}),
        noises_in_stored={"loud": LayerNoise(97, size), "quiet": LayerNoise(3, 100 - size)},
        written=lambda keep_float, adaptive: tried.append([*keep_float]),
        max_drop=0.01,
    )
    assert tried[2:3] == kept


@pytest.mark.parametrize(("of_float", "tried"), [(0.12, False), (0.05, True)])
def test_weights_stay_stored_where_the_device_does_not_hold_the_budget_in_float(of_float: float, tried: bool) -> None:
    """It computes in half precision, say: 0.12 lose 1.4 %, 1 % is allowed."""
    kept: list[list[str]] = []

    @dataclass
    class InHalf(Slow):
        """A runner that loses something even with all layers in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = of_float if len(kept[-1]) == 20 else 0.14
            return super().run(feeds)

    outcome = chosen(
        {"near": InHalf(FLOAT_S, 0)},
        stored=StoredCosts({f"layer {number}": 1.0 for number in range(20)}, {}),
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
        timed=False,
    )

    assert outcome.best is None
    assert [len(layers) for layers in kept] == ([0, 20, 0, 2, 5, 10, 15] if tried else [0, 20])


@pytest.mark.parametrize(
    ("error", "tried"),
    [
        (0.14, [[], ["loud"], ["loud", "second"]]),  # 1.96 % are lost: 0.36 of the noise may be left, then 0.12
        (0.25, [["loud", "second"]]),  # 6.25 %: more than rounding makes up for; 0.11 may be left, 0.04 is not there
    ],
)
def test_layers_that_leave_the_noise_for_the_least_work_go_back_to_float(error: float, tried: list[list[str]]) -> None:
    kept: list[list[str]] = []

    chosen(
        {"near": Slow(FLOAT_S / 4, error)},
        layers={
            "quiet": LayerNoise(5, 10),
            "loud": LayerNoise(70, 20),
            "second": LayerNoise(20, 20),
            "loud and large": LayerNoise(5, 500),
        },
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept == [[], *tried]


def test_of_layers_without_work_the_noise_decides() -> None:
    kept: list[list[str]] = []

    chosen(
        {"near": Slow(FLOAT_S / 4, 0.25)},
        layers={"none": LayerNoise(1, 0), "all": LayerNoise(98, 1), "little": LayerNoise(1, 99)},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept == [[], ["all"], ["none", "all"]]


SPREAD = {
    "large": LayerNoise(48, 70),
    "small": LayerNoise(20, 10),
    "smaller": LayerNoise(18, 10),
    "smallest": LayerNoise(14, 10),
}
"""Noise of layers: three small layers add as much as one large layer, and take less work."""


def test_the_cheapest_layers_are_tried_first_where_that_spares_much_work() -> None:
    kept: list[list[str]] = []

    chosen(
        {"near": Slow(FLOAT_S / 4, 0.14)},  # 1.96 % are lost: 0.48 of the noise may be left at most, 0.36 for sure
        layers=SPREAD,
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept == [[], [], ["small", "smaller", "smallest"], ["large", "small"]]


def test_one_form_that_is_computed_wrong_is_not_the_end() -> None:
    kept: list[list[str]] = []

    @dataclass
    class ByLayers(Slow):
        """A runner that is right only if the large layer is in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = 0.05 if "large" in kept[-1] else 0.9 if kept[-1] else 0.14
            return super().run(feeds)

    outcome = chosen(
        {"near": ByLayers(FLOAT_S / 4, 0)},
        layers=SPREAD,
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept[2:] == [["small", "smaller", "smallest"], ["large", "small"]]
    assert outcome.best is not None
    assert outcome.best.name == "near, 2 layers in float"


@pytest.mark.parametrize(
    ("rival_s", "tried"),
    [
        (FLOAT_S / 1.8, []),  # 0.95 of float's time by the layers' work: 1.6 times as fast at most
        (FLOAT_S / 1.5, [["much"]]),
        (None, [["much"]]),
    ],
)
def test_no_form_is_tried_that_layers_in_float_leave_slower_than_what_holds(
    rival_s: float | None, tried: list[list[str]]
) -> None:
    kept: list[list[str]] = []

    chosen(
        {"near": Slow(FLOAT_S / 2, 0.3), **({} if rival_s is None else {"holds": Slow(rival_s, 0.01)})},
        layers={"much": LayerNoise(97, 90), "little": LayerNoise(3, 10)},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert [layers for layers in kept if layers] == tried


def test_no_more_layers_go_back_once_the_budget_is_held() -> None:
    kept: list[list[str]] = []

    @dataclass
    class ByLayers(Slow):
        """Holds the budget with a layer in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = 0.05 if kept[-1] else 0.14
            return super().run(feeds)

    outcome = chosen(
        {"near": ByLayers(FLOAT_S / 4, 0)},
        layers={name: LayerNoise(noise, 1) for name, noise in (("a", 70), ("b", 20), ("c", 10))},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept == [[], [], ["a"]]
    assert outcome.best is not None
    assert outcome.best.name == "near, 1 layer in float"


@pytest.mark.parametrize(
    ("with_one", "tried"),
    [
        (0.07, [["a"]]),  # 0.49 % of 1 % is lost
        (0.14, [["a"], ["c"]]),  # 1.96 %: between this one and both of them there is another
    ],
)
def test_fewer_layers_go_back_where_far_less_is_lost_than_may_be(with_one: float, tried: list[list[str]]) -> None:
    kept: list[list[str]] = []

    @dataclass
    class ByLayers(Slow):
        """A runner that loses next to nothing with two layers in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = {0: 0.14, 1: with_one if "a" in kept[-1] else 0.05}.get(len(kept[-1]), 0.02)
            return super().run(feeds)

    outcome = chosen(
        {"near": ByLayers(FLOAT_S / 4, 0)},
        layers={"a": LayerNoise(34, 10), "b": LayerNoise(25, 15), "c": LayerNoise(50, 20), "d": LayerNoise(2, 100)},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept == [[], [], ["a", "b"], *tried]
    assert outcome.curve[-1].name.endswith("1 layer in float")
    assert outcome.curve[-1] in outcome.held


@pytest.mark.parametrize(
    ("as_it_ships", "evaluated"),
    [
        ([0.05], ["1 layer in float"]),
        ([0.9, 0.05], ["1 layer in float", "2 layers in float"]),
    ],
)
def test_the_form_with_the_fewest_layers_in_float_is_the_first_that_is_evaluated_as_it_ships(
    as_it_ships: list[float], evaluated: list[str]
) -> None:
    """Far less than the budget is lost with two layers in float, and half of it with one."""
    kept: list[list[str]] = []
    told: list[str] = []
    errors = iter(as_it_ships)

    @dataclass
    class ByLayers(Slow):
        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = {0: 0.14, 1: 0.07}.get(len(kept[-1]), 0.02)
            self.seconds = FLOAT_S / 8 * (1 + len(kept[-1]))
            return super().run(feeds)

    @dataclass
    class Shipped(Slow):
        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = next(errors)
            return super().run(feeds)

    shipped = Shipped(FLOAT_S, 0, executed_by="as it ships")
    outcome = chosen(
        {"near": Opened(ByLayers(FLOAT_S / 4, 0), lambda: shipped)},
        layers={"a": LayerNoise(34, 10), "b": LayerNoise(25, 15), "c": LayerNoise(50, 20), "d": LayerNoise(2, 100)},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
        progress=lambda what, *_: told.append(what),
    )

    completed = [what for what in told if what.endswith("as it ships")]
    assert [what.split("near, ")[-1].split("'")[0] for what in completed] == evaluated
    assert outcome.best is not None
    assert outcome.best.name == f"near, {evaluated[-1]}"
    assert outcome.best.score.complete


def test_what_is_open_is_closed_before_weights_are_rounded_adaptively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open runtimes and rounding both take memory: runtimes hold the weights once more."""
    steps: list[str] = []

    def noted(of: type, method: str) -> None:
        original = getattr(of, method)

        def call(*arguments: object) -> object:
            steps.append(method)
            return original(*arguments)

        monkeypatch.setattr(of, method, call)

    noted(Bench, "close")
    noted(Judge, "open")
    chosen(
        {"near": Slow(FLOAT_S / 4, 0.14), "stored": Slow(FLOAT_S, 0.05)},
        only_stored=["stored"],
        written=lambda _, adaptive: steps.append("round" if adaptive else "write"),
    )

    before = [first for first, second in itertools.pairwise(steps) if second == "round"]
    assert before == ["close"] * len(before)
    assert len(before) >= 2


def test_a_near_miss_whose_weights_are_rounded_adaptively_is_as_quick_as_it_was() -> None:
    """It executes the same operations with other integers: that it takes less time now is the machine's noise."""

    @dataclass
    class Quicker(Slow):
        """A runner that takes half the time and loses nothing once its weights are rounded adaptively."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            if adaptive and adaptive[-1]:
                self.seconds, self.error = FLOAT_S / 8, 0.0
            return super().run(feeds)

    adaptive: list[bool] = []
    outcome = chosen({"near": Quicker(FLOAT_S / 4, 0.14)}, written=lambda _, rounded: adaptive.append(rounded))

    near, rounded = outcome.curve
    assert rounded.name == "near, weights rounded adaptively"
    assert rounded.latency_ms == near.latency_ms == pytest.approx(1e3 * FLOAT_S / 4)
    assert outcome.best is rounded


@pytest.mark.parametrize(
    "slow", [{}, {"as slow as float": Slow(FLOAT_S, 0.01)}], ids=["alone", "beside one that holds"]
)
@pytest.mark.parametrize(
    ("loss", "best"),
    [
        (0.12, "second, 1 layer in float"),  # 1.44 % of 1 % are lost
        (0.15, None),  # 2.25 %
    ],
)
def test_the_next_near_miss_is_tried_where_the_first_one_comes_close(
    loss: float, best: str | None, slow: dict[str, Slow]
) -> None:
    kept: list[list[str]] = []

    @dataclass
    class ByLayers(Slow):
        """Holds the budget with a layer in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = 0.05 if kept[-1] else 0.16
            return super().run(feeds)

    outcome = chosen(
        {"second": ByLayers(FLOAT_S / 4, 0), "first": Slow(FLOAT_S / 4, loss), **slow},
        layers={name: LayerNoise(noise, 1) for name, noise in (("a", 70), ("b", 20), ("c", 10))},
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert (outcome.best.name if outcome.best else None) == (best or next(iter(slow), None))
    assert "first, 1 layer in float" in {trial.name for trial in outcome.curve}


def test_of_weights_that_are_stored_small_ones_go_back_where_the_largest_errors_do_not_do() -> None:
    kept: list[list[str]] = []

    @dataclass
    class ByLayers(Slow):
        """Holds the budget where the two small layers are in float."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = 0.05 if {"a", "b"} <= set(kept[-1]) else 0.14
            return super().run(feeds)

    outcome = chosen(
        {"near": ByLayers(FLOAT_S, 0)},
        stored=StoredCosts(
            by_error={"c": 1.0, "a": 1.0, "d": 1.0, "b": 1.0}, by_size={"a": 1.0, "b": 1.0, "c": 49.0, "d": 49.0}
        ),
        written=lambda keep_float, adaptive: kept.append(list(keep_float)),
    )

    assert kept[:6] == [[], [], ["c"], ["c", "a"], ["c", "a", "d"], ["a", "b"]]
    assert outcome.best is not None
    assert outcome.best.name.startswith("near, 2 layers in float, small ones first")


def test_layers_in_float_go_with_weights_rounded_to_nearest_where_adaptive_rounding_lost_more() -> None:
    adaptively: list[bool] = []

    @dataclass
    class Rounded(Slow):
        """A runner that loses more if its weights are rounded adaptively."""

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.error = 0.19 if adaptively[-1] else 0.14
            return super().run(feeds)

    chosen({"near": Rounded(FLOAT_S / 4, 0)}, written=lambda keep_float, adaptive: adaptively.append(adaptive))

    assert adaptively == [False, True, False]


@pytest.mark.parametrize(("error", "tried"), [(0.44, 2), (0.46, 1)])
def test_what_loses_more_than_twenty_times_the_budget_is_not_rescued(error: float, tried: int) -> None:
    # the power of the error is its square: 19.4 % and 21.2 % are lost, 1 % is allowed
    assert len(chosen({"near": Slow(FLOAT_S / 4, error)}, max_drop=0.01).curve) == tried


@pytest.mark.parametrize(("error", "tried"), [(0.06, 3), (0.15, 1)])
def test_of_no_budget_at_all_a_thousandth_is_in_reach(error: float, tried: int) -> None:
    assert len(chosen({"near": Slow(FLOAT_S / 4, error)}, max_drop=0.0).curve) == tried


def test_a_near_miss_is_tried_with_more_care() -> None:
    outcome = chosen({"near": Slow(FLOAT_S / 4, 0.19)})

    assert [trial.name for trial in outcome.curve] == [
        "near",
        "near, weights rounded adaptively",
        "near, 1 layer in float",
    ]


@pytest.mark.parametrize(("slower", "rescued"), [(1.08, "nearer"), (1.2, "fastest")])
def test_of_near_misses_that_are_about_as_fast_the_nearest_is_tried_with_more_care(slower: float, rescued: str) -> None:
    outcome = chosen({"fastest": Slow(FLOAT_S / 4, 0.25), "nearer": Slow(FLOAT_S / 4 * slower, 0.2)})

    assert {trial.name.partition(",")[0] for trial in outcome.curve[2:]} == {rescued}


@dataclass
class Decides(Slow):
    """A runner that chooses the other of two classes, by a larger or smaller margin."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        CLOCK.seconds += self.seconds
        return {"y": np.array([2.0, 2.0 - self.error], np.float32)}


def test_of_near_misses_that_lost_the_same_the_one_with_the_least_error_is_tried_with_more_care() -> None:
    near = {"first": Decides(FLOAT_S / 4, 1.0), "nearer": Decides(FLOAT_S / 4, 0.1)}

    outcome = chosen(near, max_drop=0.2, answer=np.array([1.0, 2.0], np.float32), metric=AGREEMENT)

    assert [trial.score.drop for trial in outcome.curve[:2]] == [1.0, 1.0]
    assert {trial.name.partition(",")[0] for trial in outcome.curve[2:]} == {"nearer"}


def test_a_candidate_that_is_called_alike_is_no_form_that_came_close() -> None:
    """Of a budget of 0.01, 0.015 are close and 0.1 are not."""

    def trial(name: str, settings: Settings, value: float) -> Trial:
        account = LayerAccount("a layer", "Conv", INTEGERS, "")
        return Trial(name, settings, Written(model_of(1), [account]), Score(AGREEMENT, value, 1.0, 20.0))

    settings, others = Settings(), Settings(block=32)
    near, alike = trial("integers", settings, 0.9), trial("integers, LSTM too", others, 0.985)
    form = trial("integers, weights rounded adaptively", settings, 0.985)

    def came_close(*curve: Trial) -> bool:
        bench = Bench(Judge(Scorer(References.of([]), AGREEMENT, 1.0)), Model(model_of(1)), None)
        costs = CostsAsTold({}, StoredCosts({}, {}))
        return NearMiss(near, [*curve], bench, lambda *_: near.written, costs, 0.01).came_close

    assert not came_close(near, alike)
    assert came_close(near, alike, form)
