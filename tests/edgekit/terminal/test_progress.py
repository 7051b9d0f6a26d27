from __future__ import annotations

import io
import re
import threading
import time
from types import SimpleNamespace

import pytest

from edgekit.progress import Progress
from edgekit.terminal import progress as progress_module
from edgekit.terminal.progress import LiveProgress, PlainProgress, RemainingTime, progress_on


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def work(progress: Progress) -> None:
    with progress.stage("quantize"):
        progress.step("calibrating", 3, 10)
        progress.warn("few samples")


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    work(progress_on(stream))
    assert re.fullmatch(r"quantize\nwarning: few samples\nquantize: 0\.\d s\n", stream.getvalue())


def test_steps_of_long_stages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_LINES", 0.0)
    stream = io.StringIO()
    progress = PlainProgress(stream)
    with progress.stage("quantize"):
        progress.step("calibrating", 3, 10)
        progress.step("searching", 7, 0)
    assert stream.getvalue().splitlines()[1:3] == ["  calibrating 3/10", "  searching 7"]


def test_a_long_step_is_told_again_where_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SECONDS_OF_SILENCE", 0.01)
    said = threading.Event()

    class Listened(io.StringIO):
        def write(self, text: str) -> int:
            if "so far: rounding 3/23" in text:
                said.set()
            return super().write(text)

    stream = Listened()
    progress = PlainProgress(stream)
    with progress.stage("quantize"):
        progress.step("rounding", 3, 23)  # sooner than SECONDS_BETWEEN_LINES after the stage's name: not printed itself
        assert said.wait(30)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "quantize"
    assert re.fullmatch(r"quantize: \d+\.\d s", lines[-1])
    assert all(re.fullmatch(r"  quantize, \d+ s so far(: rounding 3/23)?", line) for line in lines[1:-1])


def test_a_stage_that_failed_is_told_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "SECONDS_OF_SILENCE", 0.01)
    stream = io.StringIO()
    with pytest.raises(ValueError, match="lost"), PlainProgress(stream).stage("build"):
        raise ValueError("lost")
    told = stream.getvalue()
    time.sleep(0.1)
    assert stream.getvalue() == told


def test_the_time_that_is_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    pace, told = RemainingTime(), []
    for seconds, what, done, total in [
        (100.0, "calibrating", 2, 42),
        (100.5, "calibrating", 3, 42),  # too early to tell
        (102.0, "calibrating", 12, 42),  # the last nine in 1.5 seconds: thirty take five
        (103.0, "searching", 1, 0),
        (110.0, "searching", 2, 0),
        (120.0, "rounding", 0, 40),
        (140.0, "rounding", 1, 40),  # 39 of 20 seconds each
        (142.0, "rounding", 2, 40),  # the first one took 20 seconds, the second two, as the 38 others will
        (144.0, "rounding", 3, 40),
        (145.0, "timing", 0, 0),
    ]:
        now = seconds
        told.append(pace.text(what, done, total))
    assert told == [
        "calibrating 2/42",
        "calibrating 3/42",
        "calibrating 12/42, 5 s left",
        "searching 1",
        "searching 2",
        "rounding 0/40",
        "rounding 1/40, 13 min left",
        "rounding 2/40, 76 s left",
        "rounding 3/40, 74 s left",
        "timing",
    ]


def test_a_stage_that_fails_claims_no_time() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="bad"), progress_on(stream).stage("load"):
        raise ValueError("bad")
    assert stream.getvalue() == "load\n"


def test_a_terminal_gets_one_line_a_stage(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgekit.terminal.progress.time", SimpleNamespace(monotonic=lambda: 0.0))
    progress = progress_on(terminal)
    assert isinstance(progress, LiveProgress)
    work(progress)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "✓ quantize 0.0 s" in text
    assert "warning: few samples" in text


def test_no_color_is_respected(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    work(progress_on(terminal))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.getvalue())


def test_a_dumb_terminal_gets_plain_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_on(terminal), PlainProgress)


def test_quiet_leaves_the_warnings(terminal: Terminal) -> None:
    work(progress_on(terminal, quiet=True))
    assert terminal.getvalue() == "warning: few samples\n"


def test_a_long_step_is_cut_and_nothing_else(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    progress = progress_on(terminal)
    with progress.stage("check operators"):
        progress.step("so far 'integers, depthwise convolutions too', accuracy 85.00%", 1, 0)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n").splitlines()
    assert any(re.search(r"check operators so far 'integers.*… 0:00:00$", line) for line in lines)
