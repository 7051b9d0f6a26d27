"""Commands that are ended at random moments leave nothing half-written."""

from __future__ import annotations

import sys

import pytest
from kills import kills

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def test_thirty_kills_leave_nothing_half_written() -> None:
    assert [str(one) for one in kills(30, seed=1) if one.faults] == []


@pytest.mark.slow
def test_five_hundred_kills_leave_nothing_half_written() -> None:
    assert [str(one) for one in kills(500, seed=2) if one.faults] == []
