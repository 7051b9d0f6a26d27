"""Apple's code in a process of its own: when it dies, it is an error, and the next request is served again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from edgekit_coreai.process import CoreAICrashError, Process
from edgekit_coreai.trace import Trace


def test_a_crash_names_the_model_and_what_was_being_done_and_the_next_request_is_served(tmp_path: Path) -> None:
    """The runtime of coreai-core 1.0.0b3 ends its process when it opens an empty folder."""
    process = Process()
    with pytest.raises(CoreAICrashError, match=r"^empty\.aimodel: [\s\S]*Core AI[\s\S]*compiling the model for this"):
        process.ask("empty.aimodel", "open", tmp_path)
    assert process.ask("next.aimodel", "close", 1) is None
    process.end()


def test_a_process_that_was_killed_is_replaced() -> None:
    process = Process()
    process.ask("model.aimodel", "close", 1)
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert process.ask("model.aimodel", "close", 1) is None
    assert process.pid != first
    assert process.generation == 2
    process.end()


def test_what_is_noted_is_seen_by_the_other_process_and_cut_where_it_is_long(tmp_path: Path) -> None:
    ours, theirs = Trace(tmp_path / "trace"), Trace(tmp_path / "trace")
    ours.note("translating conv 'ü'")
    assert theirs.read() == "translating conv 'ü'"
    ours.note("x" * 10_000)
    assert theirs.read() == "x" * 4095
