import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.decisions.label_accuracy import TaskAccuracy
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.comparison.numbers.metrics import OutputAccuracy
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import open_samples
from edgekit.model import Arrays, ValueSpec

GOOD = OutputAccuracy(
    name="y",
    samples=4,
    exact=False,
    max_abs_error=0.0,
    sqnr_db=90.0,
    worst_sample_db=80.0,
    worst_sample=0,
    weakest_db=80.0,
    picture_db=None,
    cosine=1.0,
    agreement=1.0,
    decisions=200,
    mismatch=0.0,
    stuck=False,
)
CLASSES = replace(GOOD, sqnr_db=None, worst_sample_db=None, weakest_db=None, cosine=None, agreement=None)
REDUCED = (Kind.FLOAT16, Kind.QUANTIZED)


def shortfalls(
    kind: Kind,
    output: OutputAccuracy,
    *,
    task: TaskAccuracy | None = None,
    max_drop: float | None = None,
    own: dict[str, float] | None = None,
) -> list[str]:
    floors = Floors.of(kind, labelled=task is not None and not task.is_chance(4), max_drop=max_drop)
    return Accuracy("it", "the original", False, 4, floors, (output,), task, own or {}).shortfalls()


def test_float32_builds_need_every_sample() -> None:
    assert shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=50.0)) == []
    assert shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=49.9)) == [
        "output 'y': SQNR 49.9 dB on its worst sample (at least 50 dB)"
    ]


@pytest.mark.parametrize(("own", "wrong", "holds"), [(9.0, 1, True), (9.0, 2, False), (40.0, 1, False)])
def test_what_is_told_counts_where_a_float32_build_cannot_be_compared(own: float, wrong: int, holds: bool) -> None:
    """A quantized detector agrees with itself to a few dB, and finds the same boxes."""
    output = replace(GOOD, sqnr_db=15.0, worst_sample_db=7.0, agreement=None)
    meaning = MeaningAccuracy("boxes", ("y",), "rows", 20, wrong, 0.9)
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None)
    found = Accuracy("it", "the original", False, 4, floors, (output,), None, {"y": own}, meaning=meaning)
    assert (found.shortfalls() == []) is holds
    asked = replace(found, floors=Floors.of(Kind.FLOAT32, labelled=False, max_drop=None, floor_db=30.0))
    assert asked.shortfalls()


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "flaw",
    [
        {"sqnr_db": -math.inf, "worst_sample_db": -math.inf, "mismatch": 0.1, "agreement": 1.0},
        {"sqnr_db": math.nan, "worst_sample_db": math.nan, "agreement": None},
        {"stuck": True},
    ],
)
def test_what_never_passes(kind: Kind, flaw: dict[str, Any]) -> None:
    assert len(shortfalls(kind, replace(GOOD, **flaw))) == 1


def test_other_outputs_of_float32_builds_are_equal() -> None:
    assert shortfalls(Kind.FLOAT32, CLASSES) == []
    assert shortfalls(Kind.FLOAT32, replace(CLASSES, mismatch=0.001)) == [
        "output 'y': 0.10% of the elements differ (at most 0%)"
    ]


@pytest.mark.parametrize(
    ("own", "mismatch", "holds"),
    [(0.02, 0.04, True), (0.02, 0.041, False), (0.1, 0.2, True), (0.2, 0.25, True), (0.2, 0.26, False)],
)
def test_codes_of_float32_builds_are_held_to_what_the_original_agrees_with_itself_on(
    own: float, mismatch: float, holds: bool
) -> None:
    """EnCodec's codes of silence: one in six is another where a sample of the sound moves to its neighbour."""
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None)
    codes = replace(CLASSES, mismatch=mismatch)
    found = Accuracy("it", "the original", False, 4, floors, (codes,), None, {}, self_mismatch={"y": own})
    assert (found.shortfalls() == []) is holds
    asked = replace(found, floors=Floors.of(Kind.FLOAT32, labelled=False, max_drop=None, floor_db=30.0))
    assert asked.shortfalls()


@pytest.mark.parametrize("kind", REDUCED)
def test_other_outputs_of_reduced_builds_may_differ_a_little(kind: Kind) -> None:
    assert shortfalls(kind, replace(CLASSES, mismatch=0.05)) == []
    assert len(shortfalls(kind, replace(CLASSES, mismatch=0.06))) == 1


@pytest.mark.parametrize(
    ("pooled", "own_pooled", "holds"),
    [(13.0, None, False), (21.0, None, True), (13.0, 14.0, True), (13.0, 19.5, False), (9.9, 12.0, False)],
)
def test_an_original_that_multiplies_integers_is_followed_as_far_as_its_executions_follow_each_other(
    pooled: float, own_pooled: float | None, holds: bool
) -> None:
    """Key points in a heat map of 8 bits: another of several greatest values is taken."""
    output = replace(GOOD, sqnr_db=pooled, worst_sample_db=4.0, agreement=None)
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None)
    found = Accuracy("it", "the original", False, 4, floors, (output,), None, {"y": 4.5})
    found = replace(found, pooled_agreement_db={} if own_pooled is None else {"y": own_pooled})
    assert (found.shortfalls() == []) is holds
    asked = replace(found, floors=Floors.of(Kind.FLOAT32, labelled=False, max_drop=None, floor_db=30.0))
    assert asked.shortfalls()


@pytest.mark.parametrize(
    ("db", "own", "holds"), [(39.0, None, False), (39.0, 44.0, True), (39.0, 46.0, False), (19.0, 20.0, False)]
)
def test_so_are_pictures_of_8_bit_integers(db: float, own: float | None, holds: bool) -> None:
    picture = replace(CLASSES, picture_db=db, mismatch=0.6, max_abs_error=15.0)
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None)
    found = Accuracy("it", "the original", False, 4, floors, (picture,), None)
    found = replace(found, pooled_agreement_db={} if own is None else {"y": own})
    assert (found.shortfalls() == []) is holds


def test_quantized_scores_may_decide_the_same() -> None:
    scores = replace(CLASSES, picture_db=12.0, mismatch=0.9, max_abs_error=15.0, agreement=0.96, decisions=50)
    assert shortfalls(Kind.QUANTIZED, scores) == []
    assert len(shortfalls(Kind.QUANTIZED, replace(scores, agreement=0.94))) == 1
    assert len(shortfalls(Kind.QUANTIZED, replace(scores, picture_db=2.9))) == 1
    assert len(shortfalls(Kind.FLOAT32, scores)) == 1


def test_pictures_may_differ_by_one_count() -> None:
    picture = replace(CLASSES, picture_db=60.0, mismatch=0.004, max_abs_error=1.0)
    assert shortfalls(Kind.FLOAT32, picture) == []
    assert shortfalls(Kind.FLOAT32, replace(picture, max_abs_error=2.0)) == [
        "output 'y': 0.40% of the elements differ, by at most 2 (SQNR 60.0 dB)"
    ]
    assert len(shortfalls(Kind.FLOAT32, replace(picture, mismatch=0.02))) == 1
    assert shortfalls(Kind.FLOAT16, replace(picture, mismatch=0.5, max_abs_error=9.0)) == []
    assert len(shortfalls(Kind.QUANTIZED, replace(picture, picture_db=19.0))) == 1


@pytest.mark.parametrize("kind", REDUCED)
def test_reduced_outputs_need_little_noise_or_equal_decisions(kind: Kind) -> None:
    noisy = replace(GOOD, sqnr_db=19.0, worst_sample_db=1.0, weakest_db=9.0)
    assert shortfalls(kind, replace(noisy, sqnr_db=20.0, weakest_db=10.0, agreement=0.5)) == []
    assert shortfalls(kind, replace(noisy, agreement=0.95)) == []
    assert shortfalls(kind, replace(noisy, sqnr_db=3.0, weakest_db=-2.0)) == []
    assert shortfalls(kind, replace(noisy, sqnr_db=0.0)) == [
        "output 'y': SQNR 0.0 dB (at least 20 dB), and 0 of 200 decisions changed (the budget 5 % allows 10)"
    ]
    assert shortfalls(kind, replace(noisy, agreement=None)) == ["output 'y': SQNR 19.0 dB (at least 20 dB)"]
    assert shortfalls(kind, replace(noisy, sqnr_db=24.0, agreement=None)) == [
        "output 'y': SQNR 24.0 dB, 9.0 dB on its weakest sample (at least 10 dB)"
    ]
    assert shortfalls(kind, replace(noisy, agreement=0.94)) == [
        "output 'y': SQNR 19.0 dB (at least 20 dB), and 12 of 200 decisions changed (the budget 5 % allows 10)"
    ]


def test_a_floor_that_was_asked_for_takes_the_place_of_the_usual_one() -> None:
    for kind, floor_db in ((Kind.FLOAT32, 30.0), (Kind.QUANTIZED, 30.0)):
        floors = Floors.of(kind, labelled=False, max_drop=None, floor_db=floor_db)
        assert floors.asked
        output = replace(GOOD, agreement=None, sqnr_db=30.0, worst_sample_db=30.0, weakest_db=20.0)
        assert Accuracy("it", "the original", False, 4, floors, (output,), None).shortfalls() == []
        worse = replace(output, sqnr_db=29.0, worst_sample_db=29.0)
        assert len(Accuracy("it", "the original", False, 4, floors, (worse,), None).shortfalls()) == 1


def test_labels_do_not_make_up_for_a_floor_that_was_asked_for() -> None:
    task = TaskAccuracy("y", 0.75, 0.75)
    output = replace(GOOD, sqnr_db=28.0, weakest_db=21.0)
    for floor_db, flaws in ((None, []), (40.0, ["output 'y': SQNR 28.0 dB (at least 40 dB)"])):
        floors = Floors.of(Kind.QUANTIZED, labelled=True, max_drop=None, floor_db=floor_db)
        assert Accuracy("it", "the original", False, 4, floors, (output,), task).shortfalls() == flaws


def test_a_drop_that_was_allowed_bounds_changed_decisions_where_there_are_no_labels() -> None:
    noisy = replace(GOOD, sqnr_db=9.0, agreement=0.97)
    assert shortfalls(Kind.FLOAT16, noisy, max_drop=0.03) == []
    assert shortfalls(Kind.QUANTIZED, noisy, max_drop=0.03) == []
    assert len(shortfalls(Kind.QUANTIZED, noisy, max_drop=0.02)) == 1


@pytest.mark.parametrize(
    ("changed", "flaws"), [(4, []), (7, ["output 'y': 7 of 160 decisions changed (the budget 1 % allows 1)"])]
)
def test_the_signal_does_not_make_up_for_more_changed_decisions_than_asked(changed: int, flaws: list[str]) -> None:
    """1.6 are allowed: 4 - 1.645 √4 is 0.7 and may be luck, 7 - 1.645 √7 is 2.6."""
    told = replace(GOOD, agreement=1 - changed / 160, decisions=160, tells_classes=True)
    assert shortfalls(Kind.QUANTIZED, told, max_drop=0.01) == flaws
    assert shortfalls(Kind.QUANTIZED, told) == []
    assert shortfalls(Kind.QUANTIZED, replace(told, tells_classes=False), max_drop=0.01) == []


def test_scores_that_may_be_classes_and_change_more_than_asked_are_a_warning() -> None:
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=0.01)
    output = replace(GOOD, agreement=0.95, decisions=200)
    remarks = remarks_on(
        Accuracy("it", "the original", False, 4, floors, (output, replace(output, agreement=0.99)), None)
    )
    assert remarks == [
        "output 'y': 10 of 200 decisions changed (the budget 1 % allows 2); if these are scores of classes, more "
        "decisions are lost than --max-drop allows"
    ]


def test_quantities_have_to_follow_what_varies_between_samples() -> None:
    load = replace(GOOD, sqnr_db=41.3, weakest_db=35.9, agreement=1.0, centred_db=13.3)
    for kind in (Kind.FLOAT16, Kind.QUANTIZED):
        assert shortfalls(kind, load) == [
            "output 'y': SQNR 13.3 dB for what varies between samples (at least 20 dB), 41.3 dB with what is the "
            "same in all"
        ]
        assert shortfalls(kind, replace(load, centred_db=20.0)) == []
    own = Accuracy(
        "it",
        "the original",
        False,
        4,
        Floors.of(Kind.FLOAT16, labelled=False, max_drop=None),
        (load,),
        None,
        {"y": 45.0},
    )
    assert own.shortfalls() == []  # the original itself agrees to 45 - (41.3 - 13.3) = 17 dB: 11 are asked


@dataclass(frozen=True)
class _Runs:
    """Answers with scores of two classes."""

    answer: Callable[[np.ndarray], np.ndarray]
    executed_by: str = "the test"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        return {"x": self.answer(feeds["x"])}


def test_a_rare_class_is_not_lost_within_the_drop_of_all_labels(tmp_path: Path) -> None:
    for number in range(400):
        is_rare = number < 2
        np.savez(tmp_path / f"{number}.npz", x=np.eye(2, dtype=np.float32)[[int(is_rare)]], label=int(is_rare))
    samples = open_samples(tmp_path, [ValueSpec("x", "float32", (1, 2))])
    original = _Runs(lambda x: x)
    for built, lost in ((_Runs(lambda x: 0 * x + np.array([[0.9, 0.1]], np.float32)), True), (original, False)):
        outputs, task = compare(samples, original, built, ("x",))
        assert task is not None
        floors = Floors.of(Kind.QUANTIZED, labelled=True, max_drop=None)
        accuracy = Accuracy("it", "the original", False, 400, floors, (replace(outputs[0], stuck=False),), task)
        assert task.drop == pytest.approx(0.005 if lost else 0)  # within the budget of 1%
        flaw = (
            "class 1 is found in 0 samples, by the original in 2: such a loss in one class is likely only if "
            "7.07% or more of all labels are lost"
        )
        assert accuracy.shortfalls() == ([f"{flaw} (at most 1.00%)"] if lost else [])
        assert task.as_record().get("worst_class", {}).get("class") == (1 if lost else None)


@pytest.mark.parametrize("kind", list(Kind))
def test_labels_may_be_lost_within_the_drop(kind: Kind) -> None:
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.875, 0.8671875)) == []
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.75, 0.5)) == [
        "top-1 accuracy 50.00% instead of 75.00%: 1 of 4 labels lost (the budget 1 % allows 0)"
    ]
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.875, 0.75), max_drop=0.125) == []


@pytest.mark.parametrize(("allowed", "count"), [(1, 100), (3, 300), (7, 100), (59, 1000), (172, 1000)])
def test_a_loss_of_exactly_the_budget_is_within_it(allowed: int, count: int) -> None:
    """In floating point 1 - 0.99 is more than 0.01, and 941 / 1000 is less than 1 - 0.059."""
    budget, noisy = allowed / count, replace(GOOD, sqnr_db=5.0, decisions=count)
    for lost, holds in ((allowed, True), (allowed + 1, False)):
        kept = (count - lost) / count
        task = TaskAccuracy("y", 1.0, kept)
        assert (shortfalls(Kind.QUANTIZED, noisy, task=task, max_drop=budget) == []) is holds
        for agreement in (kept, 1 - lost / count):
            output = replace(noisy, agreement=agreement)
            assert (shortfalls(Kind.QUANTIZED, output, max_drop=budget) == []) is holds
        found = MeaningAccuracy("boxes", ("y",), "rows", count, lost, 0.9)
        floor = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=budget).agreement
        assert floor is not None
        assert (found.shortfall(floor) is None) is holds


@pytest.mark.parametrize(("samples", "lost", "max_drop"), [(100, 1, 0.01), (200, 1, 0.005), (50, 9, 0.18)])
def test_labels_may_be_lost_up_to_the_limit_itself(samples: int, lost: int, max_drop: float) -> None:
    for found in range(samples // 2, samples + 1):
        task = TaskAccuracy("y", found / samples, (found - lost) / samples)
        assert shortfalls(Kind.QUANTIZED, GOOD, task=task, max_drop=max_drop) == []
        task = TaskAccuracy("y", found / samples, (found - lost - 1) / samples)
        assert len(shortfalls(Kind.QUANTIZED, GOOD, task=task, max_drop=max_drop)) == 1
    noisy = replace(GOOD, sqnr_db=15.0, agreement=(samples - lost) / samples)
    assert shortfalls(Kind.QUANTIZED, noisy, max_drop=max_drop) == []


def test_labels_judge_the_class_output_of_a_quantized_build_and_no_other() -> None:
    noisy, task = replace(GOOD, sqnr_db=5.0, agreement=0.5), TaskAccuracy("y", 0.9, 0.9)
    assert shortfalls(Kind.QUANTIZED, noisy, task=task) == []
    assert len(shortfalls(Kind.QUANTIZED, replace(noisy, name="z"), task=task)) == 1


def test_labels_that_prove_nothing_do_not_judge() -> None:
    noisy, task = replace(GOOD, sqnr_db=4.2, agreement=0.5), TaskAccuracy("y", 0.0, 0.0, 10)
    assert shortfalls(Kind.QUANTIZED, noisy, task=task) == [
        "output 'y': SQNR 4.2 dB (at least 20 dB), and 100 of 200 decisions changed (the budget 5 % allows 10)"
    ]
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    judged = Accuracy("it", "the original", False, 4, floors, (noisy,), task)
    assert str(judged.label_doubt).startswith(
        "the original finds 0.00% of 4 labels among 10 classes, no more than a guess may find: the labels are not used"
    )
    task = replace(task, numbered="sub-folders were numbered by name, circle 0, cross 1")
    assert str(Accuracy("it", "the original", False, 4, floors, (noisy,), task).label_doubt).endswith(
        "or give more samples; sub-folders were numbered by name, circle 0, cross 1: "
        "--labels FILE gives the model's order"
    )
    counted = Accuracy("it", "the original", False, 4, replace(floors, max_drop=0.01), (noisy,), task)
    assert counted.label_doubt is None


def test_few_labels_are_a_sign_of_another_preprocessing() -> None:
    """54 of 300 labels among ten are more than a guess finds, but a classifier of digits finds nearly all of them."""
    floors, task = Floors.of(Kind.QUANTIZED, labelled=True, max_drop=0.01), TaskAccuracy("y", 0.18, 0.18, 10)
    assert remarks_on(Accuracy("it", "the original", False, 300, floors, (GOOD,), task)) == [
        "the original itself finds only 18.00% of 300 labels: if it found more in training, the samples do not become "
        "the input as they did there; check [preprocessing], the labels and the order of the classes"
    ]
    for other in (replace(task, reference=0.6), replace(task, listed=20)):
        assert remarks_on(Accuracy("it", "the original", False, 300, floors, (GOOD,), other)) == []


def test_an_output_that_the_original_does_not_reproduce_is_asked_for_less() -> None:
    assert shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=30.0), own={"y": 36.0}) == []
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=29.0), own={"y": 36.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=30.0), own={"z": 36.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, sqnr_db=19.0, worst_sample_db=9.0), own={"y": 3.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=49.0), own={"y": 90.0})) == 1


def test_a_sample_that_the_original_does_not_determine_is_weighed_with_the_others() -> None:
    """A logit near zero among large ones: executions of the original agree to 3 dB on it, and to 25 dB over all."""
    near_zero = replace(GOOD, sqnr_db=25.0, worst_sample_db=7.0)
    assert shortfalls(Kind.FLOAT32, near_zero, own={"y": 3.0}) == []
    assert len(shortfalls(Kind.FLOAT32, near_zero, own={"z": 3.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, near_zero, own={"y": 13.5})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(near_zero, worst_sample_db=-4.0), own={"y": 3.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(near_zero, sqnr_db=19.9), own={"y": 3.0})) == 1
    asked = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None, floor_db=40.0)
    assert len(Accuracy("it", "the original", False, 4, asked, (near_zero,), None, {"y": 3.0}).shortfalls()) == 1


@pytest.mark.parametrize("kind", REDUCED)
def test_a_reduced_build_is_asked_for_no_more_than_the_original_reproduces(kind: Kind) -> None:
    noisy = replace(GOOD, sqnr_db=17.6, weakest_db=12.0, agreement=None)
    assert shortfalls(kind, noisy) == ["output 'y': SQNR 17.6 dB (at least 20 dB)"]
    assert shortfalls(kind, noisy, own={"y": 23.0}) == []
    assert shortfalls(kind, noisy, own={"y": 24.0}) == ["output 'y': SQNR 17.6 dB (at least 18 dB)"]
    assert len(shortfalls(kind, noisy, own={"z": 11.0})) == 1
    assert shortfalls(kind, replace(noisy, sqnr_db=10.0, weakest_db=10.0), own={"y": 11.0}) == []
    assert len(shortfalls(kind, replace(noisy, sqnr_db=9.9), own={"y": 11.0})) == 1
    assert len(shortfalls(kind, replace(noisy, weakest_db=9.9), own={"y": 11.0})) == 1


def test_the_original_is_executed_again_only_where_that_can_change_the_verdict() -> None:
    def misses(kind: Kind, output: OutputAccuracy) -> bool:
        floors = Floors.of(kind, labelled=False, max_drop=None)
        return Accuracy("it", "the original", False, 4, floors, (output,), None).misses_a_signal()

    noisy = replace(GOOD, sqnr_db=17.6, weakest_db=12.0, worst_sample_db=12.0, agreement=None)
    assert misses(Kind.FLOAT32, noisy)
    assert misses(Kind.FLOAT16, noisy)
    assert not misses(Kind.FLOAT16, replace(noisy, sqnr_db=20.0))
    assert not misses(Kind.FLOAT16, replace(noisy, sqnr_db=9.9))
    assert not misses(Kind.QUANTIZED, replace(noisy, agreement=1.0))


@pytest.mark.parametrize(
    ("sqnr_db", "output", "right", "told"),
    [
        (1.1, "y", 0.9, True),
        (3.0, "y", 0.9, False),  # what decisions have to reach without labels
        (1.1, "label", 0.9, False),
        (1.1, "y", 0.0, False),  # labels that prove nothing judge nothing
    ],
)
def test_scores_that_find_the_labels_with_other_numbers_are_told(
    sqnr_db: float, output: str, right: float, told: bool
) -> None:
    """A kernel that gives a fifth of every score finds the labels, and every probability is another."""
    task = TaskAccuracy(output, right, right, 10)
    floors = Floors.of(Kind.QUANTIZED, labelled=not task.is_chance(40), max_drop=None)
    found = Accuracy("it", "the original", False, 40, floors, (replace(GOOD, sqnr_db=sqnr_db),), task)
    text = (
        "output 'y' finds the labels, but its numbers are not the original's: SQNR 1.1 dB over all samples; rely on "
        "the class of the largest number only, for probabilities and thresholds differ"
    )
    assert found.others_behind_labels == ([text] if told else [])
