import math
from dataclasses import replace
from typing import Any

import pytest

from edgekit.comparison.accuracy import Accuracy, Floors, Kind
from edgekit.comparison.metrics import OutputAccuracy, TaskAccuracy

GOOD = OutputAccuracy(
    name="y",
    samples=4,
    exact=False,
    max_abs_error=0.0,
    sqnr_db=90.0,
    worst_sample_db=80.0,
    worst_sample=0,
    cosine=1.0,
    agreement=1.0,
    mismatch=0.0,
    stuck=False,
)
CLASSES = replace(GOOD, sqnr_db=None, worst_sample_db=None, cosine=None, agreement=None)


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


@pytest.mark.parametrize(("kind", "floor"), [(Kind.FLOAT32, 50.0), (Kind.FLOAT16, 25.0)])
def test_float_builds_need_every_sample(kind: Kind, floor: float) -> None:
    assert shortfalls(kind, replace(GOOD, worst_sample_db=floor)) == []
    assert shortfalls(kind, replace(GOOD, worst_sample_db=floor - 0.1)) == [
        f"output 'y': SQNR {floor - 0.1:.1f} dB on its worst sample (at least {floor:.0f} dB)"
    ]


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


def test_other_outputs_of_float_builds_are_equal() -> None:
    assert shortfalls(Kind.FLOAT16, CLASSES) == []
    assert shortfalls(Kind.FLOAT16, replace(CLASSES, mismatch=0.001)) == [
        "output 'y': 0.10% of the elements differ (at most 0%)"
    ]


def test_other_outputs_of_quantized_builds_may_differ_a_little() -> None:
    assert shortfalls(Kind.QUANTIZED, replace(CLASSES, mismatch=0.05)) == []
    assert len(shortfalls(Kind.QUANTIZED, replace(CLASSES, mismatch=0.06))) == 1


def test_quantized_outputs_need_little_noise_or_equal_decisions() -> None:
    noisy = replace(GOOD, sqnr_db=9.0, worst_sample_db=1.0)
    assert shortfalls(Kind.QUANTIZED, replace(noisy, sqnr_db=10.0, agreement=0.5)) == []
    assert shortfalls(Kind.QUANTIZED, replace(noisy, agreement=0.95)) == []
    assert shortfalls(Kind.QUANTIZED, replace(noisy, agreement=None)) == ["output 'y': SQNR 9.0 dB (at least 10 dB)"]
    assert shortfalls(Kind.QUANTIZED, replace(noisy, agreement=0.94)) == [
        "output 'y': SQNR 9.0 dB (at least 10 dB), and the same decision in 94.0% of the cases (at least 95.0%)"
    ]


def test_a_drop_that_was_allowed_bounds_changed_decisions_where_there_are_no_labels() -> None:
    noisy = replace(GOOD, sqnr_db=9.0, agreement=0.97)
    assert shortfalls(Kind.QUANTIZED, noisy, max_drop=0.03) == []
    assert len(shortfalls(Kind.QUANTIZED, noisy, max_drop=0.02)) == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_labels_may_be_lost_within_the_drop(kind: Kind) -> None:
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.875, 0.8671875)) == []
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.875, 0.75)) == [
        "top-1 accuracy 75.00% instead of 87.50% on 4 samples (a drop of 1.00% is allowed)"
    ]
    assert shortfalls(kind, GOOD, task=TaskAccuracy("y", 0.875, 0.75), max_drop=0.125) == []


def test_labels_judge_the_class_output_of_a_quantized_build_and_no_other() -> None:
    noisy, task = replace(GOOD, sqnr_db=5.0, agreement=0.5), TaskAccuracy("y", 0.9, 0.9)
    assert shortfalls(Kind.QUANTIZED, noisy, task=task) == []
    assert len(shortfalls(Kind.QUANTIZED, replace(noisy, name="z"), task=task)) == 1


def test_labels_that_prove_nothing_do_not_judge() -> None:
    noisy, task = replace(GOOD, sqnr_db=4.2, agreement=0.5), TaskAccuracy("y", 0.0, 0.0, 10)
    assert shortfalls(Kind.QUANTIZED, noisy, task=task) == [
        "output 'y': SQNR 4.2 dB (at least 10 dB), and the same decision in 50.0% of the cases (at least 95.0%)"
    ]
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    judged = Accuracy("it", "the original", False, 4, floors, (noisy,), task)
    assert str(judged.label_doubt).startswith(
        "the original finds 0.00% of 4 labels among 10 classes, no more than a guess may find: they prove nothing"
    )
    counted = Accuracy("it", "the original", False, 4, replace(floors, max_drop=0.01), (noisy,), task)
    assert counted.label_doubt is None


def test_an_output_that_the_original_does_not_reproduce_is_asked_for_less() -> None:
    assert shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=30.0), own={"y": 36.0}) == []
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=29.0), own={"y": 36.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=30.0), own={"z": 36.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=9.0), own={"y": 3.0})) == 1
    assert len(shortfalls(Kind.FLOAT32, replace(GOOD, worst_sample_db=49.0), own={"y": 90.0})) == 1
