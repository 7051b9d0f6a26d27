import math

import numpy as np
import pytest

from edgekit.device_check.wrong_answers import mismatch_of_wrong, sqnr_of_wrong


def test_zeros_are_as_far_off_as_the_output_is_large() -> None:
    assert sqnr_of_wrong([np.array([1.0, -1.0]), np.array([-1.0, 1.0])]) == 0.0


def test_a_number_alone_comes_near_to_values_that_are_alike() -> None:
    """The mean is 10; what is left is 1 each: 202 of energy to 2."""
    assert sqnr_of_wrong([np.array([9.0, 11.0])]) == pytest.approx(10 * math.log10(101))


def test_the_same_for_all_samples_comes_near_to_outputs_that_are_alike() -> None:
    """Their mean is (0, 10): 202 of energy to 2; the other sample's is at twice the distance."""
    assert sqnr_of_wrong([np.array([1.0, 10.0]), np.array([-1.0, 10.0])]) == pytest.approx(10 * math.log10(101))


def test_another_samples_output_comes_near_in_a_slow_sequence() -> None:
    """Each step is 1 from the next, and the mean is farther off."""
    steps = [np.array([float(step), 0.0]) for step in (3, 4, 5, 6, 7, 8, 9, 10)]
    energy = sum(step**2 for step in (3, 4, 5, 6, 7, 8, 9, 10))
    assert sqnr_of_wrong(steps) == pytest.approx(10 * math.log10(energy / 8))


def test_what_no_device_is_asked_to_tell_apart_is_not_wrong() -> None:
    same = np.array([5.0, -5.0, 1.0])
    assert sqnr_of_wrong([same, same, same + 1e-3]) < 1
    assert sqnr_of_wrong([np.zeros(3)]) == 0.0
    assert sqnr_of_wrong([np.full(3, np.nan)]) == 0.0
    assert sqnr_of_wrong([np.array(7.0)]) == 0.0


def test_outputs_of_other_shapes_belong_to_no_other_sample() -> None:
    assert sqnr_of_wrong([np.array([1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])]) == 0.0


def test_the_least_that_wrong_integers_have_wrong() -> None:
    assert mismatch_of_wrong([np.array([0, 0, 0, 1])]) == 0.25  # zeros
    assert mismatch_of_wrong([np.array([3, 3, 2, 2, 3])]) == 0.4  # all of them 3
    assert mismatch_of_wrong([np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])]) == 0.25  # the other sample's
    assert mismatch_of_wrong([np.array([0]), np.array([0])]) is None
    assert mismatch_of_wrong([np.array(["a", "b"]), np.array(["a", "c"])]) == 0.5
