from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit import __version__, registry
from edgekit.cli import COMMANDS

NAMES = [command.name for command in COMMANDS]
HEAVY = ("PIL", "coremltools", "numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "openvino", "rich", "torch")
SECONDS_TO_HELP = 0.5
"""Generous: it takes 0.06 s on an idle machine; 0.3 s is the promise."""

RunEdgeKit = Callable[..., Any]


def run_python(script: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_has_an_example_that_its_options_allow(edgekit: RunEdgeKit, name: str) -> None:
    finished = edgekit(name, "--help")
    assert finished.code == 0
    assert finished.err == ""
    usage, _, examples = re.split(r"\n  (Examples?):\n", finished.out)
    assert usage.startswith(f"Usage: edgekit {name} ")
    lines = examples.rstrip().splitlines()
    assert lines
    for line in lines:
        assert line.startswith(f"    edgekit {name}"), line
        for option in re.findall(r" (-{1,2}[a-z-]+)", line):
            assert re.search(rf"(?<![a-z-]){option}(?![a-z-])", usage), f"{option} is no option of {name}"
    assert max(map(len, finished.out.splitlines())) <= 80
    assert not re.search(r"<[a-zA-Z\[\]]+>", finished.out), "types of Python tell nothing"


@pytest.mark.parametrize(
    ("arguments", "option", "expected"),
    [
        (["package", "m.onnx", "--target", "ios18", "--floor", "abc"], "--floor", "a number"),
        (["build", "-j", "0"], "--jobs", "a whole number from 1"),
        (["bench", "bundle", "--batch", "1.5"], "--batch", "a whole number"),
        (["gate", "--time-limit", "nan"], "--time-limit", "a number from 0.1"),
        (["gate", "--time-limit", "inf"], "--time-limit", "a finite number"),
        (["package", "m.onnx", "--target", "ios18", "--quiet", "--floor", "nan"], "--floor", "a finite number"),
        (["package", "m.onnx", "--target", "ios18", "--quiet", "--floor", "-inf"], "--floor", "a finite number"),
    ],
)
def test_a_number_that_an_option_does_not_take(
    edgekit: RunEdgeKit, arguments: list[str], option: str, expected: str
) -> None:
    finished = edgekit(*arguments)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == f"error: {option}: cannot be used\nexpected: {expected}\nfound: {arguments[-1]}\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_json_and_quiet(edgekit: RunEdgeKit, name: str) -> None:
    out = edgekit(name, "--help").out
    assert "--json" in out
    assert "--quiet" in out


def test_help_lists_every_command(edgekit: RunEdgeKit) -> None:
    finished = edgekit("--help")
    assert finished.code == 0
    listed = re.findall(r"^  ([a-z]+)  ", finished.out.partition("Commands:")[2], flags=re.MULTILINE)
    assert listed == NAMES
    assert {"package", "build", "inspect", "fix", "check", "quantize", "verify", "bench", "gate", "report"} <= set(
        NAMES
    )
    assert {"extract", "targets"} <= set(NAMES)


def test_help_cuts_nothing_off_and_tells_the_exit_codes(edgekit: RunEdgeKit) -> None:
    text = edgekit("--help").out
    assert "..." not in text.partition("Commands:")[2]
    assert max(map(len, text.splitlines())) <= 80
    codes = re.findall(r"^    ([\d, ]+)  (.+)$", text.partition("Exit codes:")[2], flags=re.MULTILINE)
    assert codes == [
        ("0", "done"),
        ("1", "the model or bundle does not meet what was asked"),
        ("2", "wrong usage or bad input"),
        ("3", "a fault of EdgeKit itself, or of a plugin"),
        ("130, 143", "ended by Ctrl-C, by SIGTERM"),
    ]


def test_no_command_shows_the_help_as_wrong_usage(edgekit: RunEdgeKit) -> None:
    finished = edgekit()
    assert (finished.code, finished.out) == (2, "")
    assert finished.err == edgekit("--help").out


def test_the_version(edgekit: RunEdgeKit) -> None:
    assert edgekit("--version").out == f"edgekit {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    finished = run_python(
        """
        import json, sys
        from edgekit.cli import main
        main(["--help"])
        print(json.dumps(sorted(sys.modules)), file=sys.stderr)
        """
    )
    assert finished.returncode == 0
    loaded = {name.partition(".")[0] for name in json.loads(finished.stderr)}
    assert loaded & set(HEAVY) == set()


def test_help_answers_at_once() -> None:
    def processor_seconds() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "edgekit", "--help"], capture_output=True, check=True, timeout=60)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(processor_seconds() for _ in range(3)) < SECONDS_TO_HELP


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["inspekt"], "no such command 'inspekt'. Did you mean 'inspect'?", "edgekit"),
        (["targets", "--unheard-of"], "no such option: --unheard-of", "edgekit targets"),
        (["targets", "--jso"], "no such option: --jso (Possible options: --json)", "edgekit targets"),
        (["inspect"], "missing argument 'MODEL'", "edgekit inspect"),
        (["fix", "m.onnx"], "missing option '--output' / '-o'", "edgekit fix"),
        (["check", "m.onnx", "--target"], "option '--target' requires an argument", "edgekit check"),
        (["targets", "too", "many"], "got unexpected extra argument(s) (too many)", "edgekit targets"),
    ],
)
def test_wrong_usage_is_one_clear_line_and_a_hint(
    edgekit: RunEdgeKit, arguments: list[str], message: str, command: str
) -> None:
    finished = edgekit(*arguments)
    assert finished.code == 2
    assert finished.out == ""
    assert finished.err == f"error: {message}\nhint: `{command} --help` shows the usage\n"


def test_errors_are_data_with_json(edgekit: RunEdgeKit, tmp_path: Path) -> None:
    finished = edgekit("inspect", tmp_path / "none.onnx", "--json")
    assert finished.code == 2
    assert finished.err == f"error: {tmp_path}/none.onnx: there is no such file\n"
    assert finished.json == {
        "error": {
            "exit_code": 2,
            "type": "InputError",
            "message": "there is no such file",
            "subject": f"{tmp_path}/none.onnx",
        }
    }


def test_wrong_usage_is_data_with_json(edgekit: RunEdgeKit) -> None:
    finished = edgekit("inspect", "--json")
    assert finished.json["error"]["message"] == "missing argument 'MODEL'"


# Faults of EdgeKit itself


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(registry, "installed_targets", fail)
    monkeypatch.delenv("EDGEKIT_TRACEBACK", raising=False)


@pytest.mark.usefixtures("fault")
def test_an_unexpected_failure_is_one_line_and_how_to_see_more(edgekit: RunEdgeKit) -> None:
    finished = edgekit("targets")
    assert (finished.code, finished.out) == (3, "")
    assert finished.err == (
        "error: a fault of EdgeKit itself: ZeroDivisionError: division by zero\n"
        "hint: set EDGEKIT_TRACEBACK=1 to see where it happened, and report it with the command that you ran\n"
    )


@pytest.mark.usefixtures("fault")
def test_an_unexpected_failure_is_data_with_json(edgekit: RunEdgeKit) -> None:
    error = edgekit("targets", "--json").json["error"]
    assert (error["exit_code"], error["type"]) == (3, "InternalError")


@pytest.mark.usefixtures("fault")
def test_the_traceback_is_shown_where_it_is_asked_for(edgekit: RunEdgeKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEKIT_TRACEBACK", "1")
    finished = edgekit("targets")
    assert finished.err.startswith("Traceback (most recent call last):\n")
    assert "in fail\n" in finished.err
    assert "error: a fault of EdgeKit itself: ZeroDivisionError: division by zero" in finished.err


# The world outside

WAITING_COMMAND = """
    import sys, time
    from edgekit import registry
    from edgekit.cli import main

    def wait():
        print("ready", flush=True)
        time.sleep(60)

    registry.installed_targets = wait
    sys.exit(main(["targets"]))
"""


@pytest.mark.parametrize(
    ("number", "text"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")],
    ids=["ctrl-c", "sigterm"],
)
def test_an_interruption_is_one_clear_error(number: signal.Signals, text: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(WAITING_COMMAND)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err == f"error: {text}\nhint: nothing was left behind\n"


def test_a_reader_that_has_seen_enough_ends_the_command_as_shells_expect() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", "edgekit", "targets", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert (finished.returncode, finished.stderr) == (141, "")


def test_a_terminal_without_unicode_gets_question_marks(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("g (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    finished = subprocess.run(
        [sys.executable, "-m", "edgekit", "inspect", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )
    assert finished.returncode == 0
    assert "2?3" in finished.stdout


def test_colours_need_a_terminal(edgekit: RunEdgeKit) -> None:
    assert "\x1b" not in edgekit("inspect").err


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_on_a_terminal_and_no_color(no_color: str) -> None:
    master, slave = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color}
    command = [sys.executable, "-m", "edgekit", "inspect"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=environment) as process:
        os.close(slave)
        text = os.read(master, 10_000).decode()
        while "hint:" not in text:
            text += os.read(master, 10_000).decode()
        assert process.wait(timeout=60) == 2
    os.close(master)
    assert ("\x1b[1;31merror:" in text) is (no_color == "")


def test_the_process_collects_cycles_seldom_and_gives_the_exit_code_back() -> None:
    script = """
        import gc, sys
        from edgekit.__main__ import COLLECT_AFTER, run
        sys.argv = ["edgekit", "inspect", "missing.onnx"]
        code = run()
        print(gc.get_threshold()[0] == COLLECT_AFTER)
        sys.exit(code)
    """

    ended = run_python(script)

    assert ended.returncode == 2
    assert ended.stdout == "True\n"
    assert "missing.onnx" in ended.stderr


def test_numpy_does_not_warn_on_the_terminal() -> None:
    finished = run_python("import edgekit.__main__; import numpy as np; print(np.float32(1) / np.zeros(1, np.float32))")
    assert finished.stdout == "[inf]\n"
    assert finished.stderr == ""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="has no permissions of POSIX")
def test_a_file_that_may_not_be_read(edgekit: RunEdgeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so the system's answer is given here."""
    path = tmp_path / "a model.onnx"
    path.touch(mode=0)
    allowed = os.access

    def access(place: object, mode: int, **options: Any) -> bool:
        return str(place) != str(path) and allowed(place, mode, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "access", access)
    finished = edgekit("inspect", path)
    assert finished.code == 2
    assert finished.err == (
        f"error: {path}: cannot be read: permission denied\nhint: make it readable: chmod u+rX '{path}'\n"
    )
