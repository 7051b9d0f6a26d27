"""What counts as the same number, of many numbers and of those that are none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from edgekit.execution.tolerance import compare

LAST_OF_MANY = 100_000
"""More numbers than are compared at once."""


def many(dtype: type = np.float32) -> np.ndarray:
    return np.linspace(1, 2, LAST_OF_MANY).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("each", [False, True])
def test_one_number_among_many_is_seen_wherever_it_is(dtype: type, each: bool) -> None:
    for place in (0, 40_000, LAST_OF_MANY - 1):
        found = many(dtype)
        found[place] *= 1.5
        assert compare("y", many(dtype), found, each=each) is not None
    assert compare("y", many(dtype), many(dtype) * dtype(1 + 2 * np.finfo(dtype).eps), each=each) is None


def test_the_largest_number_of_all_is_what_differences_are_held_against() -> None:
    expected = many()
    expected[-1] = 1e6
    found = expected.copy()
    found[0] += 100  # sqrt(2^-23) of a million is 345
    assert compare("y", expected, found) is None
    assert compare("y", expected, found, each=True) is not None


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_in_the_changed_model_alone_differs(number: float) -> None:
    found = many()
    found[-1] = number
    assert compare("y", many(), found) is not None
    assert compare("y", found, many()) == "y has infinities or NaN at other places"
    assert compare("y", found, found.copy()) is None


def test_many_numbers_are_not_held_once_more_in_double_precision() -> None:
    expected = np.ones(1 << 22, np.float32)
    found = expected * np.float32(1 + 2.0**-22)
    tracemalloc.start()
    try:
        assert compare("y", expected, found) is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < expected.nbytes
