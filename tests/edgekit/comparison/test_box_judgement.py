"""How a build of a detector is judged by the boxes that it and the original find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.refusal import InaccurateError, require_accuracy
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.meaning import meaning_of
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.comparison.numbers.metrics import OutputAccuracy

from .detector_forms import (
    CLASSES,
    PICTURE,
    Form,
    after_suppression,
    boxes_and_scores,
    dense,
    softmax_of_queries,
    yolo5,
    yolo8,
)

NOISY = OutputAccuracy("output0", 3, False, 9.0, 42.0, 40.0, 0, 41.0, None, 1.0, 0.99, 100, 0.0, False)


def beside_itself(samples: int, weaken: float = 1.0, **changed: Any) -> Accuracy:
    """The judgement of an INT8 build of a detector whose numbers have 5 dB, with three objects in each sample.

    Args:
        samples: The number of samples.
        weaken: The factor of the build's scores of the second and third class.
        changed: See :func:`dense`.
    """
    answers = [yolo8(*dense(np.random.default_rng(seed))) for seed in range(samples)]
    meaning = meaning_of(answers, PICTURE)
    assert meaning is not None
    meaning = meaning.anew()
    for seed, answer in enumerate(answers):
        corners, scores = dense(np.random.default_rng(seed), **changed)
        meaning.add(answer, yolo8(corners, scores * np.array([1, weaken, weaken])))
    output = replace(NOISY, sqnr_db=5.0, worst_sample_db=5.0, weakest_db=5.0, agreement=None, decisions=None)
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    return Accuracy("it", "the original", False, samples, floors, (output,), None, meaning=meaning.result())


def test_boxes_judge_where_the_original_finds_enough_whatever_becomes_of_them() -> None:
    """Of 12 objects 8 have a score of 0.2 in the build, too little to count there, and enough to be found."""
    weaker = beside_itself(4, weaken=0.25)
    assert weaker.meaning is not None
    assert (weaker.meaning.count, weaker.meaning.of_original, weaker.meaning.wrong) == (16, 12, 0)
    assert weaker.shortfalls() == []
    assert weaker.few_boxes_kept is None
    assert beside_itself(4, forget=3).shortfalls() == [
        "output 'output0': 12 of 12 boxes differ (the budget 5 % allows 0)"
    ]


def test_few_boxes_judge_where_all_of_them_are_kept() -> None:
    kept = beside_itself(2)
    assert kept.shortfalls() == []
    few = "6 objects are found on the samples, fewer than the 10 that a judgement needs"
    assert kept.few_boxes_kept == (
        f"{few}: the built model finds all of them, but they are too few to rely on; give samples that show more"
    )
    assert kept.few_boxes_kept in remarks_on(kept)
    lost = beside_itself(2, forget=1)
    with pytest.raises(InaccurateError) as caught:
        require_accuracy(lost, Kind.QUANTIZED, "int8", "it")
    assert caught.value.found == "output 'output0': SQNR 5.0 dB (at least 20 dB)"
    assert caught.value.hint == f"{few}: boxes are judged as numbers; give samples that show more"
    assert caught.value.too_few == caught.value.hint
    assert beside_itself(2, move=3.0).shortfalls()  # they overlap by less than 0.75
    assert beside_itself(1).shortfalls()  # three are too few


def of_first_class(form: Form, classes: int | None = None) -> MeaningAccuracy:
    """The judgement of a detector of three classes on samples that show the first class alone."""
    corners, scores = dense(np.random.default_rng(0))
    scores[:, 1:] = 0.01
    answer = form(corners, scores)
    meaning = meaning_of([answer], PICTURE, classes)
    assert meaning is not None
    meaning = meaning.anew()
    for _ in range(10):
        meaning.add(answer, answer)
    return meaning.result()


@pytest.mark.parametrize("form", [yolo8, yolo5, boxes_and_scores, softmax_of_queries])
def test_classes_that_no_box_is_of_are_told(form: Form) -> None:
    result = of_first_class(form)
    assert (result.shown_classes, result.known_classes) == (1, CLASSES)
    told = "the original's boxes on the samples are of 1 of 3 classes, which leaves the others untested"
    assert result.few_classes == f"{told}: give samples that show more classes"
    of_two = replace(result, known_classes=2)
    assert of_two.few_classes is not None
    assert "of 1 of 2 classes, which leaves the other untested:" in of_two.few_classes
    assert replace(result, shown_classes=2).few_classes is None
    assert replace(result, known_classes=1).few_classes is None
    assert replace(result, shown_classes=4, known_classes=80).few_classes is not None
    assert replace(result, shown_classes=5, known_classes=80).few_classes is None


def test_names_tell_how_many_classes_there_are_after_suppression() -> None:
    assert of_first_class(after_suppression).few_classes is None
    result = of_first_class(after_suppression, CLASSES)
    assert (result.shown_classes, result.known_classes) == (1, CLASSES)


def test_classes_without_a_box_are_told_where_boxes_judge_a_reduced_build() -> None:
    of_all = beside_itself(4)
    assert of_all.meaning is not None
    assert (of_all.meaning.shown_classes, of_all.meaning.known_classes) == (CLASSES, CLASSES)
    assert of_all.few_classes_shown is None
    shown = replace(of_all, meaning=replace(of_all.meaning, shown_classes=1))
    assert shown.few_classes_shown in remarks_on(shown)
    floors = Floors.of(Kind.FLOAT32, labelled=False, max_drop=None)
    assert replace(shown, floors=floors).few_classes_shown is None


def judged(forgotten: int, kind: Kind = Kind.QUANTIZED, floor_db: float | None = None, pictures: int = 4) -> list[str]:
    answers = [yolo8(*dense(np.random.default_rng(seed))) for seed in range(pictures)]
    meaning = meaning_of(answers, PICTURE)
    assert meaning is not None
    for seed, answer in enumerate(answers):
        meaning.add(answer, yolo8(*dense(np.random.default_rng(seed), forget=forgotten)))
    floors = Floors.of(kind, labelled=False, max_drop=None, floor_db=floor_db)
    return Accuracy("it", "the original", False, 3, floors, (NOISY,), None, meaning=meaning.result()).shortfalls()


def test_a_detector_is_judged_by_its_boxes_however_near_its_numbers_are() -> None:
    assert judged(0) == []
    assert judged(1) == ["output 'output0': 4 of 20 boxes differ (the budget 5 % allows 1)"]


def test_few_boxes_prove_nothing() -> None:
    assert judged(1, pictures=3) == []


def test_a_floor_that_was_asked_for_and_a_float32_build_go_by_numbers() -> None:
    assert judged(1, floor_db=30.0) == []
    assert judged(0, Kind.FLOAT32) == ["output 'output0': SQNR 40.0 dB on its worst sample (at least 50 dB)"]
