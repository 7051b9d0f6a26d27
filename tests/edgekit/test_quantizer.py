"""How a candidate is opened in several settings."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from edgekit.quantizer import CandidateError, Opened
from edgekit.target import Runner


@dataclass
class Named:
    """A runner that is told by its name."""

    executed_by: str

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(feeds)


def test_settings_that_are_not_timed_are_opened_at_the_same_time() -> None:
    """Each waits until the other is being opened."""
    both = threading.Barrier(2, timeout=30)

    def shipped() -> Runner:
        both.wait()
        return Named("one thread")

    def held() -> list[Runner]:
        both.wait()
        return [Named("avx2"), Named("avx512")]

    opened = Opened(Named("two threads"), shipped, held)

    assert [runner.executed_by for runner in opened.others] == ["one thread", "avx2", "avx512"]


def test_the_setting_that_is_timed_is_no_other() -> None:
    opened = Opened(Named("one thread"), lambda: Named("one thread"))
    assert [runner.executed_by for runner in opened.others] == []


@pytest.mark.parametrize("shipped_too", [False, True])
def test_a_setting_that_cannot_be_opened_is_an_error_of_the_candidate(shipped_too: bool) -> None:
    def refused() -> list[Runner]:
        raise CandidateError("cannot be loaded")

    def shipped() -> Runner:
        return refused()[0] if shipped_too else Named("one thread")

    opened = Opened(Named("two threads"), shipped, refused)

    with pytest.raises(CandidateError, match="cannot be loaded"):
        _ = opened.others
