"""On how many samples a candidate is run before it is known whether it may hold the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from edgekit.model import Model
from edgekit.quantizer import Opened
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.score import AGREEMENT, EXPLAINED, LABELS, Score
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.workers import Judge
from tests.quantize.edgekit_quantize.search.slow_runners import model_of

SAMPLES = 64
ASKED_AT_FIRST = 16
MAX_DROP = 0.01


@dataclass
class Asked:
    """Answers with an error that a test says for each sample, and counts how often it is asked."""

    error: Callable[[int], float]
    executed_by: str = "timed"
    asked: list[int] = field(default_factory=list)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["number"][0])
        self.asked.append(number)
        return {"y": _answer(number) + np.float32(self.error(number))}


def _answer(number: int) -> np.ndarray:
    """1 and -1 in turns, so that the variance of the answers is 1 of each sample, and of all that are even too."""
    return np.full((1, 1), 1.0 if number % 3 else -1.0, np.float32)


def _references(samples: int = SAMPLES) -> References:
    made = References(samples)
    for number in range(samples):
        made.offer(Reference({"number": np.array([number])}, {"y": _answer(number)}, label=0))
    return made


def _judge(max_drop: float | None = MAX_DROP, metric: str = EXPLAINED, samples: int = SAMPLES) -> Judge:
    return Judge(Scorer(_references(samples), metric, 1.0, label_output="y"), max_drop=max_drop)


def _first_score(judge: Judge, *runners: Asked) -> list[Score]:
    scores = judge.first_scores_of(runners)
    assert all(isinstance(score, Score) for score in scores)
    return [score for score in scores if isinstance(score, Score)]


def test_a_hopeless_candidate_and_one_that_is_right_are_run_on_a_quarter_of_the_samples() -> None:
    hopeless, right = Asked(lambda _: 0.5), Asked(lambda _: 0.0)
    in_doubt = Asked(lambda number: 0.35 if number % 16 == 0 else 0.0)  # 3.4 % are lost of the part, 0.9 % of all
    lost, kept, doubtful = _first_score(_judge(), hopeless, right, in_doubt)

    assert hopeless.asked == right.asked == [*range(0, SAMPLES, 4)]
    assert sorted(in_doubt.asked) == [*range(SAMPLES)]
    assert (lost.samples, kept.samples, doubtful.samples) == (ASKED_AT_FIRST, ASKED_AT_FIRST, None)
    variance = 1 - ((SAMPLES - 2 * 22) / SAMPLES) ** 2  # 22 of 64 numbers are multiples of 3
    assert lost.drop == pytest.approx(0.5**2 / variance)
    assert doubtful.drop == pytest.approx(0.35**2 / 16 / variance)
    assert kept.drop == 0
    assert not kept.complete


def test_one_that_loses_all_of_it_on_the_other_samples_is_refused_before_it_ships() -> None:
    wrong_elsewhere = Asked(lambda number: 0.0 if number % 4 == 0 else 0.5)
    judge = _judge()
    (score,) = _first_score(judge, wrong_elsewhere)
    assert score.drop == 0

    whole = judge.completed(Model(model_of(1)), score, wrong_elsewhere)

    assert isinstance(whole, Score)
    assert whole.complete
    assert whole.samples is None
    assert whole.drop == pytest.approx(0.75 * 0.5**2 / (1 - ((SAMPLES - 2 * 22) / SAMPLES) ** 2))


@pytest.mark.parametrize(("error", "times_held"), [(0.0, 1), (0.5, 0)])
def test_it_is_run_on_all_samples_as_it_ships_and_held_to_instructions_if_it_holds_there(
    error: float, times_held: int
) -> None:
    timed, held = Asked(lambda _: 0.0), Asked(lambda _: 0.0, "held")
    shipped = Asked(lambda _: error, "shipped")
    opened = Opened(timed, lambda: shipped, lambda: [held])
    judge = _judge()
    (score,) = judge.first_scores_of([opened])
    assert isinstance(score, Score)

    whole = judge.completed(Model(model_of(1)), score, opened)

    assert isinstance(whole, Score)
    assert len(timed.asked) == ASKED_AT_FIRST
    assert len(shipped.asked) == SAMPLES
    assert len(held.asked) == times_held * SAMPLES
    assert (whole.drop <= MAX_DROP) == (error == 0)
    assert [*whole.in_settings] == ["timed", "shipped", "held"][: 2 + times_held]


def test_one_large_error_on_a_part_that_is_within_the_budget_of_all_does_not_rule_a_candidate_out() -> None:
    wrong_once = Asked(lambda number: 0.5 if number == 0 else 0.0)
    (score,) = _first_score(_judge(), wrong_once)

    assert sorted(wrong_once.asked) == [*range(SAMPLES)]
    assert score.drop < MAX_DROP


@pytest.mark.parametrize(("changed", "asked"), [(3, 4 * SAMPLES), (6, SAMPLES)])
def test_decisions_that_may_have_changed_by_luck_are_counted_on_all_samples(changed: int, asked: int) -> None:
    """Of 6 that change, 2 do but once in 20 times; 2 of 64 are more than 1 %. Of 3 none may."""
    references = References(4 * SAMPLES)
    for number in range(4 * SAMPLES):
        references.offer(Reference({"x": np.float32([[number, 1000]])}, {"y": np.float32([[number, 1000]])}))
    asked_for: list[float] = []

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = feeds["x"][0, 0]
        asked_for.append(number)
        return {"y": feeds["x"][:, ::-1] if number < 4 * changed else feeds["x"]}

    runs = [[("", run)]]
    Scorer(references, AGREEMENT, 1.0).at_first(runs, MAX_DROP)

    assert len(asked_for) == asked


@pytest.mark.parametrize(
    ("max_drop", "metric", "samples"),
    [(None, EXPLAINED, SAMPLES), (MAX_DROP, EXPLAINED, SAMPLES - 1), (MAX_DROP, AGREEMENT, 4 * SAMPLES - 1)],
)
def test_without_a_budget_and_of_few_samples_all_are_asked(max_drop: float | None, metric: str, samples: int) -> None:
    right = Asked(lambda _: 0.0)
    (score,) = _first_score(_judge(max_drop, metric, samples), right)

    assert len(right.asked) == samples
    assert score.samples is None


def test_labels_are_counted_on_all_samples() -> None:
    right = Asked(lambda _: 0.0)
    _first_score(_judge(metric=LABELS, samples=4 * SAMPLES), right)

    assert len(right.asked) == 4 * SAMPLES
