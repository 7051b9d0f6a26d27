"""A candidate that would ship is judged by samples that had no room, where little is counted on the others."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from edgekit.model import Model
from edgekit.quantizer import CandidateError
from edgekit_quantize.accounts.account import INTEGERS, LayerAccount
from edgekit_quantize.calibration import references
from edgekit_quantize.calibration.references import Feeds, Reference, References
from edgekit_quantize.search import left_out
from edgekit_quantize.search.bench import Bench
from edgekit_quantize.search.in_float import StoredCosts
from edgekit_quantize.search.left_out import LeftOut
from edgekit_quantize.search.score import AGREEMENT, EXPLAINED
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.search import Outcome, Search
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written
from tests.quantize.edgekit_quantize.search.slow_runners import CLOCK, FLOAT_SIZE, CostsAsTold, Slow, model_of

SAMPLES = 10
ITS_LAYER = LayerAccount("layer", "Conv", INTEGERS, "")


@dataclass
class WrongFrom(Slow):
    """A runner that decides for another class from a given sample on, or fails there."""

    first: int = SAMPLES
    ends: bool = False

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        CLOCK.seconds += self.seconds
        if feeds["x"][0, 1] >= self.first:
            if self.ends:
                raise CandidateError("cannot be run: no kernel")
            return {"y": -feeds["x"]}
        return {"y": feeds["x"]}


def _feeds() -> Iterator[Feeds]:
    for number in range(SAMPLES):
        yield {"x": np.array([[100, number]], np.float32)}


def _feeds_at(places: Collection[int]) -> Iterator[Feeds]:
    return (feeds for place, feeds in enumerate(_feeds()) if place in places)


def _chosen(fast: WrongFrom, metric: str, max_drop: float = 0.3) -> Outcome:
    kept = References(SAMPLES, _feeds_at)
    for feeds in _feeds():
        kept.offer(Reference(feeds, {"y": feeds["x"]}))
    assert len(kept) == 2
    candidates = {"fast": fast, "slower": Slow(1e-3, 0.0)}
    models = {name: model_of(runner.size) for name, runner in candidates.items()}
    runners = {id(models[name]): runner for name, runner in candidates.items()}
    settings = {name: Settings(block=number) for number, name in enumerate(candidates)}
    judge = Judge(Scorer(kept, metric, 1.0), lambda model: runners[id(model.graph_model)])

    def left_out() -> Iterator[Reference]:
        return (Reference(feeds, {"y": feeds["x"]}) for feeds in kept.feeds_left_out())

    bench = Bench(judge, Model(model_of(FLOAT_SIZE)), Slow(2e-3, 0), left_out, clock=CLOCK)
    search = Search(
        bench,
        lambda of, keep_float, adaptive: Written([*models.values()][of.block], [ITS_LAYER]),
        CostsAsTold({}, StoredCosts({}, {})),
        max_drop,
        auto=True,
    )
    return search.run(settings)


@pytest.fixture(autouse=True)
def _room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "KEPT_BYTES", 2 * 8)  # of outputs; inputs are read again
    monkeypatch.setattr(references, "LEAST_KEPT", 1)


@pytest.mark.parametrize(
    ("first", "best", "kept"),
    [(8, "fast", 0.8), (7, "fast", 0.7), (6, "slower", 0.6)],  # samples 0 and 5 have room
)
def test_decisions_are_counted_on_all_samples(first: int, best: str, kept: float) -> None:
    outcome = _chosen(WrongFrom(5e-4, 0.0, first=first), AGREEMENT)

    assert outcome.best is not None
    assert outcome.best.name == best
    (fast,) = (trial for trial in outcome.curve if trial.name == "fast")
    assert fast.score.value == pytest.approx(kept)
    assert fast.score.count == SAMPLES
    assert fast.score.in_settings == {"a test": pytest.approx(kept)}


def test_what_is_explained_is_known_of_the_kept_samples() -> None:
    outcome = _chosen(WrongFrom(5e-4, 0.0, first=6), EXPLAINED)

    assert outcome.best is not None
    assert outcome.best.name == "fast"
    assert outcome.best.score.value == 1


def test_a_candidate_that_ends_on_one_of_them_is_left_out() -> None:
    outcome = _chosen(WrongFrom(5e-4, 0.0, first=6, ends=True), AGREEMENT)

    assert [trial.name for trial in outcome.held] == ["slower"]
    assert outcome.failed == {"fast": "cannot be run: no kernel"}


@pytest.mark.parametrize(("room", "opened", "runs"), [(8 * SAMPLES, 1, SAMPLES - 2), (8 * 3, 2, 2 * (SAMPLES - 2) - 3)])
def test_the_float_model_answers_each_of_them_once_as_far_as_answers_have_room(
    monkeypatch: pytest.MonkeyPatch, room: int, opened: int, runs: int
) -> None:
    kept = References(SAMPLES, _feeds_at)
    for feeds in _feeds():
        kept.offer(Reference(feeds, {"y": feeds["x"]}))
    monkeypatch.setattr(left_out, "KEPT_BYTES", room)
    calls: list[str] = []

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        calls.append("run")
        return {"y": -feeds["x"]}

    others = LeftOut(kept, lambda: calls.append("opened") or run)
    first, second = [*others()], [*others()]

    assert (calls.count("opened"), calls.count("run")) == (opened, runs)
    assert len(first) == len(second) == SAMPLES - 2
    for before, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(before.outputs["y"], -before.feeds["x"])
        np.testing.assert_array_equal(again.outputs["y"], -before.feeds["x"])


def test_the_float_model_answers_the_next_one_while_one_is_used() -> None:
    kept = References(SAMPLES, _feeds_at)
    for feeds in _feeds():
        kept.offer(Reference(feeds, {"y": feeds["x"]}))
    second = threading.Event()
    calls: list[int] = []

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        calls.append(len(calls))
        if len(calls) == 2:
            second.set()
        return {"y": feeds["x"]}

    samples = iter(LeftOut(kept, lambda: run)())
    next(samples)
    assert second.wait(30)
    assert len([*samples]) == SAMPLES - len(kept) - 1
