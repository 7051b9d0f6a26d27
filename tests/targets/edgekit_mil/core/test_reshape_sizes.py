from __future__ import annotations

from typing import Any

import pytest
import sympy

from edgekit_mil.core.reshape_sizes import sizes_of_volume

B, S, NEW, OTHER = sympy.symbols("b s new other", integer=True)


@pytest.mark.parametrize(
    ("volume", "sizes", "expected"),
    [
        (24, (2, NEW), [2, 12]),
        (12 * B, (B, NEW), [B, 12]),
        (96 * B * (S + 1), (B, 2, NEW), [B, 2, 48 * S + 48]),
        (6 * B * S, (NEW, 3), [2 * B * S, 3]),
        (12 * B, (B, 3, 4), [B, 3, 4]),
        (12 * B, (NEW, OTHER, 4), [NEW, OTHER, 4]),
    ],
)
def test_one_size_is_told_by_the_others(volume: Any, sizes: tuple[Any, ...], expected: list[Any]) -> None:
    assert sizes_of_volume(volume, sizes) == expected


def test_sizes_that_are_sums_are_not_solved_for() -> None:
    """Of frames with one before them, as a causal convolution pads: coremltools' solver did not come to an end."""
    sizes = [B, 6, S + 1, 4, 4]
    assert sizes_of_volume(2 * B * (48 * S + 48), sizes) == sizes
