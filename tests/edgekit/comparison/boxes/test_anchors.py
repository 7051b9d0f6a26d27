"""Detectors whose anchors the app holds: confident anchors are compared."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from edgekit.comparison.boxes.anchors import AnchorReading, anchors_among
from edgekit.comparison.boxes.attributes import AttributeAccuracy
from edgekit.comparison.boxes.near import nearly_recognised
from edgekit.comparison.meaning import meaning_of
from edgekit.comparison.meaning_accuracy import ANCHORS, MeaningAccuracy
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, ValueSpec

PICTURE = (ValueSpec("image", "float32", (1, 3, 64, 64)),)
ROWS = 400
CONFIDENT_ROWS = range(0, ROWS, 50)
SAMPLES = 3


Compared = Callable[[list[Arrays], list[Arrays]], MeaningAccuracy]


def in_pixels(seed: int, points: int = 6) -> Arrays:
    """MediaPipe's: centre and size beside the anchor in pixels, key points behind them, one logit an anchor."""
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(16, 60, (ROWS, 2))
    beside = rng.normal(size=(ROWS, 2 + 2 * points)) * 5
    told = np.hstack([beside[:, :2], sizes, beside[:, 2:]])[np.newaxis]
    logits = rng.normal(size=(1, ROWS, 1)) * 5 - 30
    logits[:, CONFIDENT_ROWS] = 2
    return {"regressors": told.astype(np.float32), "classificators": logits.astype(np.float32)}


def in_shares(seed: int, largest: float = 2.0) -> Arrays:
    """SSD's: shares of the anchor's size and logarithms, and softmax of three classes of which the first is nothing."""
    rng = np.random.default_rng(seed)
    offsets = rng.uniform(-largest, largest, (1, ROWS, 4))
    scores = np.tile([0.98, 0.01, 0.01], (1, ROWS, 1))
    scores[:, CONFIDENT_ROWS] = [0.1, 0.2, 0.7]
    return {"loc": offsets.astype(np.float32), "conf": scores.astype(np.float32)}


def reading(answers: list[Arrays]) -> AnchorReading:
    found = anchors_among(answers, PICTURE)
    assert found is not None
    assert pickle.loads(pickle.dumps(found)) == found
    return found


@pytest.mark.parametrize("form", [in_pixels, in_shares])
def test_confident_anchors_are_counted_in_both_models(form: object, compared: Compared) -> None:
    answers = [form(seed) for seed in range(SAMPLES)]  # type: ignore[operator]
    result = compared(answers, answers)
    assert (result.kind, result.count, result.wrong) == (ANCHORS, 2 * SAMPLES * len(CONFIDENT_ROWS), 0)
    assert result.overlap == pytest.approx(1)
    assert result.boxes is None


def test_boxes_in_pixels_overlap_as_computed_by_hand(compared: Compared) -> None:
    """A box that moves by a tenth of its width shares 0.9 of it; of both 1.1 widths are covered."""
    answers = [in_pixels(seed) for seed in range(SAMPLES)]
    moved = [{**answer, "regressors": answer["regressors"].copy()} for answer in answers]
    for each in moved:
        each["regressors"][..., 0] += 0.1 * each["regressors"][..., 2]
    result = compared(answers, moved)
    assert result.wrong == 0
    assert result.overlap == pytest.approx(0.9 / 1.1, abs=1e-6)


def test_boxes_in_shares_overlap_with_the_largest_factor_that_leaves_them_at_their_anchors(compared: Compared) -> None:
    """Offsets up to 2 are up to half of the anchor's size at a factor of a quarter, as the largest one is 2 here."""
    answers = [in_shares(seed) for seed in range(SAMPLES)]
    for answer in answers:
        answer["loc"][:, CONFIDENT_ROWS, 2:] = 0
        answer["loc"][:, CONFIDENT_ROWS[0], 0] = 2
    moved = [{**answer, "loc": answer["loc"] + np.array([0.4, 0, 0, 0], np.float32)} for answer in answers]
    result = compared(answers, moved)
    assert result.overlap == pytest.approx(0.9 / 1.1, abs=1e-6)


@pytest.mark.parametrize(("largest", "widened"), [(3.0, 0.3), (0.6, 0.1 * math.log(2))])
def test_logarithms_of_sizes_are_scaled_if_the_largest_box_were_more_than_twice_its_anchor(
    largest: float, widened: float, compared: Compared
) -> None:
    """With a largest logarithm of 3, the factor is ln(2) / 3, and 0.3 more widen a box 2 ** 0.1 times; a largest one of
    0.6 is less than ln(2), and the same widening is 0.1 ln(2)."""
    answers = [in_shares(seed) for seed in range(SAMPLES)]
    for answer in answers:
        answer["loc"][..., :2] = 0.1
        answer["loc"][..., 2:] = -largest
    wider = [{**answer, "loc": answer["loc"] + np.array([0, 0, widened, 0], np.float32)} for answer in answers]
    assert compared(answers, wider).overlap == pytest.approx(2**-0.1, abs=1e-6)


def test_small_shares_are_taken_as_they_are(compared: Compared) -> None:
    answers = [in_shares(seed, 0.3) for seed in range(SAMPLES)]
    for answer in answers:
        answer["loc"][..., 2:] = 0
    moved = [{**answer, "loc": answer["loc"] + np.array([0.1, 0, 0, 0], np.float32)} for answer in answers]
    assert compared(answers, moved).overlap == pytest.approx(0.9 / 1.1, abs=1e-6)


def test_anchors_that_lose_their_score_class_or_place_are_wrong(compared: Compared) -> None:
    answers = [in_shares(seed) for seed in range(SAMPLES)]
    lost = [{name: array.copy() for name, array in answer.items()} for answer in answers]
    lost[0]["conf"][:, CONFIDENT_ROWS[0]] = [0.9, 0.0, 0.1]  # the original's alone
    lost[1]["conf"][:, CONFIDENT_ROWS[1]] = [0.1, 0.7, 0.2]  # one in either model
    lost[2]["loc"][:, CONFIDENT_ROWS[2], 0] += 8  # twice as far as any anchor's: one in either model
    result = compared(answers, lost)
    assert (result.count, result.wrong) == (2 * SAMPLES * len(CONFIDENT_ROWS) - 1, 5)
    assert result.shortfall(0.95) == "5 of 47 anchors differ (the budget 5 % allows 2)"


def test_key_points_of_anchors_are_compared(compared: Compared) -> None:
    answers = [in_pixels(seed) for seed in range(SAMPLES)]
    moved = [{**answer, "regressors": answer["regressors"].copy()} for answer in answers]
    for each in moved:
        each["regressors"][..., 4:] += 20
    beside = compared(answers, moved).beside
    assert isinstance(beside, AttributeAccuracy)
    assert (beside.kind, beside.columns, beside.flaw is not None) == ("key points", 12, True)
    assert compared(answers, answers).beside == AttributeAccuracy("key points", 12, len(CONFIDENT_ROWS) * SAMPLES, 1.0)


def test_a_table_of_points_beside_boxes_and_scores_is_told_of_the_anchors(
    rng: np.random.Generator, compared: Compared
) -> None:
    """RetinaFace's third output, which has a row an anchor; only the confident ones count."""
    answers = [{**in_shares(seed), "landms": rng.normal(size=(1, ROWS, 10)).astype(np.float32)} for seed in range(2)]
    assert reading(answers).outputs == ("loc", "conf", "landms")
    others = [{**answer, "landms": answer["landms"].copy()} for answer in answers]
    quiet = np.setdiff1d(np.arange(ROWS), CONFIDENT_ROWS)
    for other in others:
        other["landms"][:, quiet] = 0
    result = compared(answers, others)
    assert result.beside is not None
    assert (result.beside.kind, result.beside.kept) == ("numbers", 1.0)
    for other in others:
        other["landms"][:] = 0
    lost = compared(answers, others).beside
    assert lost is not None
    assert lost.kept < 0.1


def test_each_grid_may_have_tables_of_its_own(compared: Compared) -> None:
    """The second grid finds nothing on these samples."""
    answers = []
    for seed in range(SAMPLES):
        fine, coarse = in_pixels(seed), in_pixels(seed + SAMPLES)
        coarse = {name: array[:, 1:50] for name, array in coarse.items()}
        answers.append({**{f"{name}_8": array for name, array in fine.items()}, **coarse})
    assert set(reading(answers).outputs) == {*answers[0]}
    assert compared(answers, answers).count == 2 * SAMPLES * len(CONFIDENT_ROWS)


def test_nothing_is_read_where_no_anchor_is_confident_or_the_user_says_so() -> None:
    answers = [in_shares(seed) for seed in range(SAMPLES)]
    quiet = [{**answer, "conf": np.tile(answer["conf"][:, 1:2], (1, ROWS, 1))} for answer in answers]
    assert meaning_of(quiet, PICTURE) is None
    assert nearly_recognised(quiet, PICTURE) is None
    assert meaning_of(answers, PICTURE, declared=DeclaredOutputs(())) is None


def test_boxes_that_are_asked_for_are_told_to_need_the_anchors() -> None:
    answers = [in_shares(seed) for seed in range(SAMPLES)]
    assert str(nearly_recognised(answers, PICTURE)) == (
        'outputs "loc", "conf" look like a detector\'s boxes, but no boxes are read, because they hold offsets and 2 '
        "classes of anchors that the app holds: export the model with its boxes decoded; until then, the confident "
        "anchors are compared in place of boxes; boxes = false under [outputs] declares that there are none"
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
