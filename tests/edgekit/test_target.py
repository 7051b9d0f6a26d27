from __future__ import annotations

import pytest

from edgekit.target import Support


@pytest.mark.parametrize(
    ("support", "count", "text"),
    [
        (Support.FALLS_BACK, 1, "1 falls back"),
        (Support.FALLS_BACK, 3, "3 fall back"),
        (Support.SUPPORTED, 12, "12 supported"),
    ],
)
def test_how_many_nodes_have_a_verdict(support: Support, count: int, text: str) -> None:
    assert support.counted(count) == text
