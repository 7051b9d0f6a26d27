from __future__ import annotations

import io
import re

import pytest

from edgekit.terminal import board as board_module
from edgekit.terminal.board import Board, LiveBoard, PlainBoard, board_on

ENDING = "ending 1 process; another Ctrl-C ends them at once"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def work(board: Board) -> None:
    with board:
        board.started("first")
        board.started("second")
        board.stage("first", "quantize")
        board.step("first", "calibrating", 3, 10)
        board.stage("second", "build")
        board.warn("second", "few samples")
        board.stage_ended("first", "quantize", 1.26)
        board.finished("first", 2.5, None)
        board.finished("second", 3.5, "something is missing\nhint: look for it")
        board.ending(1)
        board.ending(2)


def test_a_pipe_gets_lines_that_name_the_job() -> None:
    stream = io.StringIO()
    work(board_on(stream))
    assert stream.getvalue().splitlines() == [
        "first: quantize",
        "second: build",
        "warning: second: few samples",
        "first: quantize: 1.3 s",
        "first: done after 2.5 s",
        "second: FAILED after 3.5 s: something is missing",
        ENDING,
        "ending 2 processes; another Ctrl-C ends them at once",
    ]


def test_steps_of_long_stages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "SECONDS_BETWEEN_LINES", 0.0)
    stream = io.StringIO()
    board = PlainBoard(stream)
    board.step("first", "sample", 1, 2)
    board.step("first", "turn", 7, 0)
    assert stream.getvalue() == "first:   sample 1/2\nfirst:   turn 7\n"


def test_a_terminal_shows_all_that_run_and_keeps_a_line_of_each_that_ended(terminal: Terminal) -> None:
    board = board_on(terminal)
    assert isinstance(board, LiveBoard)
    work(board)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n").splitlines()
    shown = [line.strip() for line in lines]
    assert "✓ first 2.5 s" in shown
    assert "✗ second 3.5 s: something is missing" in shown
    assert "warning: second: few samples" in shown
    assert ENDING in shown
    assert any(re.search(r"first +quantize +calibrating 3/10 +0:00:00", line) for line in shown)
    assert any(re.search(r"second +build +0:00:00", line) for line in shown)


def test_quiet_leaves_warnings_alone(terminal: Terminal) -> None:
    work(board_on(terminal, quiet=True))
    assert terminal.getvalue().splitlines()[:2] == ["warning: second: few samples", ENDING]


def test_a_dumb_terminal_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(board_on(terminal), PlainBoard)


def test_the_silent_board_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    work(Board())
    assert capsys.readouterr() == ("", "")


def test_a_long_step_is_cut_and_nothing_else(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with board_on(terminal) as board:
        board.started("classifier-intel-cpu")
        board.stage("classifier-intel-cpu", "quantize")
        board.step("classifier-intel-cpu", "so far 'integers, depthwise convolutions too'", 1, 0)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n").splitlines()
    assert any(re.search(r"classifier-intel-cpu quantize so far 'in.*… 0:00:00$", line) for line in lines)
