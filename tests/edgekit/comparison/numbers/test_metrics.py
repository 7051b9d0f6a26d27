import json
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from edgekit.comparison.decisions.label_accuracy import LabelCount, TaskAccuracy, class_output
from edgekit.comparison.numbers.metrics import Comparison, OutputAccuracy, OutputComparison
from edgekit.errors import InputError, RequirementError
from edgekit.schema import find_flaw


def compare(*pairs: tuple[Any, Any], dtype: str = "float32") -> OutputAccuracy:
    """The accuracy over samples, each given as the original's and the built model's output."""
    comparison = OutputComparison("y")
    for reference, built in pairs:
        comparison.add(np.array(reference, dtype), np.array(built, dtype))
    result = comparison.result()
    record = json.loads(json.dumps(result.as_record(), allow_nan=False))
    assert find_flaw(record, "manifest.schema.json", "output_accuracy") is None
    return result


def test_figures_of_a_small_error() -> None:
    result = compare(([[3, 4]], [[3, 4.05]]))
    assert result.sqnr_db == pytest.approx(40, abs=1e-3)  # 10 log10(25 / 0.0025)
    assert result.worst_sample_db == result.sqnr_db
    assert result.max_abs_error == pytest.approx(0.05, rel=1e-5)
    assert result.cosine == pytest.approx((9 + 16.2) / 5 / math.hypot(3, 4.05))
    assert not result.exact
    assert result.mismatch == 0


def test_texts_are_of_one_type_whichever_way_a_runtime_hands_them_out() -> None:
    comparison = OutputComparison("y")
    comparison.add(np.array(["a", "bc"], object), np.array(["a", "bd"]))
    result = comparison.result()
    assert (result.exact, result.mismatch) == (False, 0.5)


def test_powers_are_pooled_over_samples_and_kept_apart() -> None:
    result = compare(([10, 0], [10, 0.1]), ([1, 0], [1, 0.1]))
    assert result.sqnr_db == pytest.approx(10 * math.log10(101 / 0.02), abs=1e-4)
    assert result.worst_sample_db == pytest.approx(20, abs=1e-4)
    assert result.samples == 2


def test_a_nearly_silent_sample_is_measured_against_the_others() -> None:
    result = compare(([1, 1], [1, 1]), ([1e-9, 0], [2e-9, 0]))
    assert result.worst_sample_db == pytest.approx(10 * math.log10(1e-3 * (2 + 1e-18) / 2 / 1e-18), abs=1e-3)


def test_the_noise_of_a_quiet_sample_is_held_against_a_tenth_of_an_average_one() -> None:
    loud, quiet = np.full(4, 10.0, np.float32), np.full(4, 0.1, np.float32)
    result = compare((loud, loud), (quiet, quiet + np.float32(1.0)))
    assert result.weakest_db == pytest.approx(10 * math.log10(0.1 * (400 + 0.04) / 2 / 4), abs=1e-3)


def test_pictures_have_a_signal() -> None:
    picture = np.full((1, 2, 2), 100, np.uint8)
    result = compare((picture, picture + np.uint8(1)), dtype="uint8")
    assert result.picture_db == pytest.approx(40.0)
    assert (result.sqnr_db, result.mismatch) == (None, 1.0)
    assert compare((picture[0], picture[0]), dtype="uint8").picture_db is None


def test_garbage_in_a_quiet_sample_shows() -> None:
    result = compare(([1000, 0], [1000, 0]), ([100, 0], [0, 100]))
    assert result.sqnr_db > 15
    assert result.worst_sample_db == pytest.approx(-3.01, abs=0.01)


def test_equal_outputs() -> None:
    result = compare(([1, np.nan, np.inf], [1, np.nan, np.inf]))
    assert result.exact
    assert result.sqnr_db == math.inf
    assert result.as_record()["sqnr_db"] == "inf"
    assert result.max_abs_error == 0


@pytest.mark.parametrize(
    ("reference", "built"),
    [
        ([1, 2], [1, np.nan]),
        ([1, 2], [1, np.inf]),
        ([1, np.nan], [1, 2]),
        ([1, np.inf], [1, 2]),
        ([1, np.inf], [1, -np.inf]),
        ([1, np.inf], [1, np.nan]),
    ],
)
def test_infinity_or_nan_on_one_side_spoils_everything(reference: list[float], built: list[float]) -> None:
    result = compare((reference, built), ([1, 1], [1, 1]))
    assert result.sqnr_db == result.worst_sample_db == -math.inf
    assert result.mismatch == 0.25
    assert result.max_abs_error is None
    assert result.cosine is None
    assert not result.exact


def test_silence() -> None:
    assert compare(([0, 0], [0, 0])).sqnr_db == math.inf
    assert compare(([0, 0], [0, 0])).cosine == 1
    assert compare(([0, 0], [0, 1e-3])).sqnr_db == -math.inf
    assert compare(([0, 0], [0, 1e-3])).cosine == 0
    assert compare(([0, 1], [0, 0])).sqnr_db == 0
    assert compare(([0, 1], [0, 0])).cosine == 0


@pytest.mark.parametrize("magnitude", [1e-300, 1e-160, 1e160, 1e300])
def test_very_small_and_very_large_numbers(magnitude: float) -> None:
    result = compare(([magnitude], [magnitude * 1.01]), dtype="float64")
    assert result.sqnr_db == pytest.approx(40)
    assert result.cosine == pytest.approx(1)


def test_an_output_without_elements() -> None:
    result = compare((np.zeros((0, 4)), np.zeros((0, 4))))
    assert result.exact
    assert result.mismatch == 0


class TestStuck:
    def test_an_output_that_no_longer_follows_its_input(self) -> None:
        result = compare(([100, 1], [100, 1]), ([103, 1], [100, 1]))
        assert result.sqnr_db > 30
        assert result.stuck

    def test_an_output_that_never_did(self) -> None:
        assert not compare(([100], [100]), ([100], [100])).stuck

    def test_what_half_precision_cannot_show_does_not_count(self) -> None:
        assert not compare(([100], [100]), ([100.01], [100])).stuck

    def test_an_output_that_moves(self) -> None:
        assert not compare(([100], [100]), ([103], [102.9])).stuck


def test_agreement_is_the_share_of_equal_decisions() -> None:
    assert compare(([[-1, 2]], [[-1, 3]]), ([[2, -1]], [[-1, 3]])).agreement == 0.5
    assert compare(([[[-1, 2], [2, -1], [2, -1], [2, -1]]], [[[-1, 2], [2, -1], [2, -1], [-1, 2]]])).agreement == 0.75


@pytest.mark.parametrize("output", [[[5.0]], np.zeros((1, 2, 3, 4)), 5.0])
def test_outputs_without_classes_have_no_agreement(output: Any) -> None:
    assert compare((output, output)).agreement is None


def test_integers_are_counted_without_wrapping_round() -> None:
    result = compare(([0, 255, 7, 7], [255, 255, 7, 7]), dtype="uint8")
    assert result.mismatch == 0.25
    assert result.max_abs_error == 255
    assert result.sqnr_db is None
    assert compare(([5], [5]), dtype="int64").exact


def test_truth_values_and_texts() -> None:
    assert compare(([True, False], [True, True]), dtype="bool").mismatch == 0.5
    assert compare((["a", "b"], ["a", "c"]), dtype="U1").mismatch == 0.5


@pytest.mark.parametrize(
    ("built", "what", "expected", "found"),
    [
        (np.zeros((2, 1), np.float32), "shape", "(1, 2)", "(2, 1)"),
        (np.zeros((1, 2)), "element type", "float32", "float64"),
    ],
)
def test_another_shape_or_type(built: np.ndarray, what: str, expected: str, found: str) -> None:
    comparison = Comparison(("y",))
    with pytest.raises(RequirementError) as failure:
        comparison.add({"y": np.zeros((1, 2), np.float32)}, {"y": built})
    assert str(failure.value) == (
        f"output 'y': the built model's output has another {what} than the original's\n"
        f"expected: {expected}\nfound: {found}"
    )


def test_a_missing_output() -> None:
    zeros = np.zeros(1, np.float32)
    with pytest.raises(RequirementError, match="lacks outputs of the original\nexpected: y, z\nfound: z"):
        Comparison(("y", "z")).add({"y": zeros, "z": zeros}, {"z": zeros})
    with pytest.raises(RequirementError, match="lacks outputs of the original\nexpected: y\nfound: none"):
        Comparison(("y",)).add({"y": zeros}, {})


def test_results_come_in_the_model_s_order() -> None:
    comparison = Comparison(("b", "a"))
    comparison.add({"a": np.ones(1), "b": np.ones(1)}, {"a": np.ones(1), "b": np.zeros(1)})
    assert [(result.name, result.exact) for result in comparison.results()] == [("b", False), ("a", True)]


class TestLabels:
    def test_scores(self) -> None:
        count = LabelCount("y")
        count.add(1, {"y": np.array([[0.1, 0.9]])}, "a")
        count.add(0, {"y": np.array([[0.1, 0.9]])}, "b")
        assert count.accuracy == 0.5

    def test_class_numbers(self) -> None:
        count = LabelCount("y")
        count.add(3, {"y": np.array([3])}, "a")
        count.add(3, {"y": np.array([2])}, "b")
        assert count.accuracy == 0.5

    def test_nan_is_no_answer(self) -> None:
        count = LabelCount("y")
        count.add(0, {"y": np.array([np.nan, 0.0])}, "a")
        assert count.accuracy == 0

    def test_a_label_that_is_no_class(self) -> None:
        with pytest.raises(InputError) as failure:
            LabelCount("y").add(2, {"y": np.array([[0.1, 0.9]])}, "a.npz")
        assert str(failure.value).startswith(
            "a.npz: the label is not a class of the model\nexpected: 0 to 1, the entries of output 'y'\nfound: 2\n"
        )

    def test_what_a_guess_may_find(self) -> None:
        """Of 100 labels among 10 classes a guess finds 10 on average, with a standard deviation of 3."""
        assert TaskAccuracy("y", 0.0, 0.0, 10).is_chance(100)
        assert TaskAccuracy("y", 0.16, 0.16, 10).is_chance(100)
        assert not TaskAccuracy("y", 0.17, 0.0, 10).is_chance(100)
        assert TaskAccuracy("y", 1.0, 1.0, 2).is_chance(3)
        assert not TaskAccuracy("y", 1.0, 1.0, 2).is_chance(5)

    def test_a_class_number_found_is_no_guess(self) -> None:
        assert TaskAccuracy("y", 0.0, 0.0).is_chance(4)
        assert not TaskAccuracy("y", 0.25, 0.0).is_chance(4)

    def test_scores_tell_the_number_of_classes(self) -> None:
        count = LabelCount("y")
        count.add(1, {"y": np.zeros((1, 5))}, "a")
        assert count.classes == 5

    def test_drop(self) -> None:
        assert TaskAccuracy("y", 0.75, 0.5).as_record() == {
            "metric": "top-1 accuracy",
            "output": "y",
            "reference": 0.75,
            "built": 0.5,
            "drop": 0.25,
        }


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"map": np.zeros((1, 3, 8, 8), np.float32), "scores": np.zeros((1, 5), np.float32)}, "scores"),
        ({"class": np.zeros(1, np.int64), "scores": np.zeros((1, 5, 1, 1), np.float32)}, "scores"),
        ({"class": np.zeros(1, np.int64), "map": np.zeros((2, 2), np.float32)}, "class"),
        ({"map": np.zeros((2, 2), np.float32), "one": np.zeros(1, np.float32)}, None),
        ({"scores": np.zeros((1, 5), np.int8)}, "scores"),
        ({"places": np.zeros((1, 5), np.int8), "scores": np.zeros((1, 5), np.float32)}, "scores"),
        ({"mask": np.zeros((1, 5), np.uint8), "class": np.zeros(1, np.int64)}, "class"),
        ({"places": np.zeros((1, 5), np.int64), "class": np.zeros(1, np.int64)}, "class"),
    ],
)
def test_the_output_that_tells_the_class(outputs: dict[str, np.ndarray], expected: str | None) -> None:
    assert class_output(outputs) == expected


COMPARES = """
import numpy as np
from edgekit.comparison.numbers.metrics import OutputComparison
rng = np.random.default_rng(1)
comparison = OutputComparison("y")
one = rng.standard_normal((1, 100_003))
comparison.add(one, one + 0.01 * rng.standard_normal(one.shape))
found = comparison.result()
print(found.sqnr_db.hex(), found.cosine.hex())
"""


def test_figures_do_not_depend_on_the_number_of_threads() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", COMPARES],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(printed) == 1


@pytest.mark.parametrize("first", [0.0, 1e-300, 1e-200, 1e-30])
@pytest.mark.filterwarnings("error")
def test_a_first_sample_that_is_nearly_nothing_does_not_set_the_scale(first: float) -> None:
    """The density of a point far outside, in double precision."""
    comparison = Comparison(("y",), {"y": None})
    for factor, scale in ((1.0, first), *((1.1, 1.0 + place / 100) for place in range(20))):
        numbers = np.array([[1.0, 2.0]]) * scale
        comparison.add({"y": numbers}, {"y": numbers * factor})
    (found,) = comparison.results()
    assert found.sqnr_db == pytest.approx(20)
    assert found.cosine == pytest.approx(1)
    assert found.centred_db is not None
