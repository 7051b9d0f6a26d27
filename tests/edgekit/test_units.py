from __future__ import annotations

import pytest

from edgekit.units import bytes_texts


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        ((4_521_004, 4_521_300), ("4,521,004 B", "4,521,300 B")),
        ((4_521_004, 4_521_004), ("4.521 MB", "4.521 MB")),
        ((4_521_004, 4_529_000), ("4.521 MB", "4.529 MB")),
        ((999, 1_000), ("999 B", "1 kB")),
    ],
)
def test_sizes_beside_each_other_are_told_apart(counts: tuple[int, ...], texts: tuple[str, ...]) -> None:
    assert bytes_texts(*counts) == texts
