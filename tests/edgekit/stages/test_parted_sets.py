"""One file that computes something else with one instruction set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.comparison.numbers.metrics import OutputAccuracy
from edgekit.comparison.numbers.ranked import RankedAccuracy
from edgekit.stages.instruction_sets import parted_sets

OUTPUT = OutputAccuracy(
    name="y",
    samples=4,
    exact=False,
    max_abs_error=0.0,
    sqnr_db=46.5,
    worst_sample_db=40.0,
    worst_sample=0,
    weakest_db=40.0,
    picture_db=None,
    cosine=1.0,
    agreement=1.0,
    decisions=200,
    mismatch=0.0,
    stuck=False,
)


def accuracy(decibels: float | None) -> Accuracy:
    floors = Floors.of(Kind.QUANTIZED, labelled=True, max_drop=None)
    return Accuracy("it", "the original", False, 4, floors, (replace(OUTPUT, sqnr_db=decibels),), None)


@pytest.mark.parametrize(
    ("decibels", "undetermined", "told"),
    [
        ({"avx2": 46.5, "vnni": 46.4, "amx": 1.1}, (), True),
        ({"avx2": 46.5, "amx": 3.0}, (), False),  # what decisions have to reach
        ({"avx2": 19.9, "amx": 1.1}, (), False),  # a form that is far off with every set is judged by its floors
        ({"avx2": 46.5, "amx": 1.1}, ("y",), False),
        ({"avx2": None, "amx": None}, (), False),  # integers have no SQNR
        ({"amx": 1.1}, (), False),
    ],
)
def test_an_output_that_is_lost_with_one_set_alone(
    decibels: dict[str, float | None], undetermined: tuple[str, ...], told: bool
) -> None:
    """A kernel for AMX gave a fifth of every score: all labels held, and the bundle shipped."""
    found = parted_sets({name: accuracy(reached) for name, reached in decibels.items()}, undetermined)
    assert [each.text for each in found] == (
        ["with amx output 'y' has a SQNR of 1.1 dB, with avx2 46.5 dB"] if told else []
    )


def test_the_refusal_names_both_sets() -> None:
    (parted,) = parted_sets({"avx2": accuracy(46.5), "amx": accuracy(1.1)}, ())
    assert str(parted.refusal("words.onnx")) == (
        "words.onnx: what was built gives other outputs with the instruction set amx\n"
        "expected: output 'y' at 3 dB at least, as with avx2: SQNR 46.5 dB\n"
        "found: SQNR 1.1 dB\n"
        "hint: another --quantize scheme may give the same outputs with both; --accept ships this one as it is"
    )


def test_boxes_and_rows_by_falling_score_have_no_signal() -> None:
    """Rows of nearly equal scores change places from set to set."""
    found = replace(
        accuracy(46.5),
        meaning=MeaningAccuracy("boxes", ("detections",), "corners", 26, 0, 1.0),
        ranked=RankedAccuracy(("rows",), 0.0, 0.0),
    )
    assert found.judged_otherwise >= {"detections", "rows"}
    assert accuracy(46.5).judged_otherwise == set()
