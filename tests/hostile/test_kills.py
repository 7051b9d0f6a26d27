"""Commands that are killed at random moments leave no incomplete output."""

from __future__ import annotations

import sys

import pytest
from kills import kills

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def test_kills_leave_nothing_half_written() -> None:
    assert [f"{one}: {one.faults}" for one in kills(9, seed=1) if one.faults] == []
