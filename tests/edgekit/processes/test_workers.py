from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from operator import attrgetter, methodcaller
from pathlib import Path

import pytest

from edgekit.cli._errors import as_edgekit_error
from edgekit.processes.workers import GRACE_SECONDS, run_jobs
from edgekit.terminal.board import Board


class Recorder(Board):
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def step(self, name: str, what: str, done: int, total: int) -> None:
        self.told.append((name, what, done, total))

    def warn(self, name: str, text: str) -> None:
        self.told.append((name, text))

    def finished(self, name: str, seconds: float, error: str | None) -> None:
        del seconds
        self.told.append((name, error))


def test_jobs_tell_of_themselves_and_one_that_fails_does_not_end_the_others() -> None:
    board = Recorder()
    jobs = [
        ("bad", attrgetter("no_such_thing")),
        ("warns", methodcaller("warn", "beware")),
        ("steps", methodcaller("step", "sample", 1, 2)),
    ]
    results = run_jobs(jobs, 2, board, as_edgekit_error)
    assert (results["warns"], results["steps"]) == (None, None)
    failure = results["bad"]
    assert failure is not None
    assert failure.exit_code == 3
    assert failure.record["type"] == "InternalError"
    assert "a fault of EdgeKit itself: AttributeError: " in failure.text
    assert failure.trace.splitlines()[-1].startswith("AttributeError: ")
    assert {("warns", "beware"), ("warns", None), ("steps", "sample", 1, 2), ("steps", None)} < set(board.told)
    assert ("bad", failure.text) in board.told


class Interrupted(Board):
    """A board that is interrupted when the last process has ended."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def finished(self, name: str, seconds: float, error: str | None) -> None:
        raise KeyboardInterrupt

    def ending(self, count: int) -> None:
        self.ended.append(count)


def test_an_interrupt_between_two_processes_ends_none_and_tells_of_none() -> None:
    board = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_jobs([("only", methodcaller("warn", "beware"))], 1, board, as_edgekit_error)
    assert board.ended == []


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from edgekit.files.atomic import atomic_directory
from edgekit.terminal.board import PlainBoard
from edgekit.cli._errors import as_edgekit_error
from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.processes.crashes import CrashError, guarded
from edgekit.processes.workers import run_jobs

def die(progress):
    os.kill(os.getpid(), signal.SIGKILL)

def leave(progress):
    os._exit(7)

def refuse(progress):
    raise UnsupportedOpsError([OpGap(op_type="Exp", node="n", reason="no")], subject="m")

def write(progress):
    with atomic_directory(Path(sys.argv[1]) / "out"):
        Path(sys.argv[1], "pid").write_text(str(os.getpid()))
        with progress.stage("writing"):
            time.sleep(60)

def stubborn(progress):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(progress)

def crash(progress):
    with progress.stage("quantize"):
        try:
            with guarded("int8"):
                os.kill(os.getpid(), signal.SIGSEGV)
        except CrashError as error:
            print("crash:", error.message, error.found, flush=True)

def crash_anywhere(progress):
    with guarded("int8"):
        pass
    os.kill(os.getpid(), signal.SIGSEGV)

def well(progress):
    pass

if __name__ == "__main__":
    jobs = [(name, globals()[name]) for name in sys.argv[2:]]
    results = run_jobs(jobs, 2, PlainBoard(sys.stderr), as_edgekit_error)
    for name, failure in results.items():
        print(f"{name}: {failure.exit_code} {failure.text}" if failure else f"{name}: done")
"""


def started(folder: Path, *jobs: str) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, script, folder, *jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def writer_of(folder: Path) -> int:
    """Waits for the process that writes, and returns it."""
    for _ in range(1200):
        if (folder / "pid").is_file() and (folder / "pid").read_text():
            return int((folder / "pid").read_text())
        time.sleep(0.05)
    raise AssertionError("the job has not begun")


def is_gone(process: int) -> bool:
    for _ in range(200):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def unfinished(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".edgekit-") or path.name == "out"]


def test_a_process_that_dies_is_a_failure_of_its_job_alone(tmp_path: Path) -> None:
    process = started(tmp_path, "die", "leave", "refuse", "well")
    out, _ = process.communicate(timeout=60)
    expected = "expected: a model that the libraries under EdgeKit can take"
    hint = "hint: the system ends processes when memory runs out, too: fewer --jobs need less"
    assert sorted(out.splitlines()) == sorted(
        [
            "die: 2 die: its process was ended by SIGKILL",
            expected,
            hint,
            "leave: 2 leave: its process ended with exit code 7",
            expected,
            hint,
            "refuse: 1 m: 1 unsupported node",
            "  Exp (node 'n'): no",
            "well: done",
        ]
    )


def test_a_job_is_done_anew_without_what_crashed(tmp_path: Path) -> None:
    out, err = started(tmp_path, "crash", "crash_anywhere", "well").communicate(timeout=60)
    lines = out.splitlines()
    assert "crash: it ended the process SIGSEGV" in lines
    assert {"crash: done", "well: done"} < set(lines)
    assert "crash_anywhere: 2 crash_anywhere: its process was ended by SIGSEGV" in lines
    warnings = [line for line in err.splitlines() if "warning" in line]
    assert warnings == [
        (
            "warning: crash: stage quantize: a form of the model ended the process by SIGSEGV; starting again without "
            "that form"
        )
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_processes_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "write", "well")
    writer = writer_of(tmp_path)
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: every process gets it
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -number
    assert is_gone(writer)
    assert unfinished(tmp_path) == []
    assert err.count("Traceback") <= 1  # the script's own: the jobs' processes end in silence
    if number is signal.SIGINT:
        assert re.search(r"^ending (1 process|2 processes); another Ctrl-C ends them at once$", err, re.MULTILINE)


def test_when_the_first_process_is_killed_the_others_clean_up_and_end(tmp_path: Path) -> None:
    process = started(tmp_path, "write")
    writer = writer_of(tmp_path)
    assert len(unfinished(tmp_path)) == 1
    process.kill()
    process.communicate(timeout=60)
    assert is_gone(writer)
    assert unfinished(tmp_path) == []


def test_another_interrupt_ends_them_at_once(tmp_path: Path) -> None:
    process = started(tmp_path, "stubborn")
    writer = writer_of(tmp_path)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "ending 1 process" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert time.monotonic() - start < GRACE_SECONDS
    assert is_gone(writer)


WATCHED = """
import sys, time
from edgekit.cli._errors import as_edgekit_error
from edgekit.processes import supervision
from edgekit.processes.workers import run_jobs
from edgekit.terminal.board import Board

def hang(progress):
    supervision.tell(limits={"memory": 1 << 31, "seconds": 1.0})
    while True: pass

def swell(progress):
    supervision.tell(limits={"memory": 300_000_000, "seconds": 30.0})
    kept = [bytearray(b"x") * 10_000_000 for _ in range(100)]
    time.sleep(60)

def work(progress):
    supervision.tell(limits={"memory": 1 << 31, "seconds": 2.0})
    for number in range(8):
        time.sleep(0.5)
        progress.step("a step", number, 8)

def wait_for_native_code(progress):
    supervision.tell(limits={"memory": 1 << 31, "seconds": 1.0})
    with supervision.slow_step(30.0):
        end = time.process_time() + 2.5
        while time.process_time() < end: pass

if __name__ == "__main__":
    jobs = [("hangs", hang), ("swells", swell), ("works", work), ("waits", wait_for_native_code)]
    for name, failure in sorted(run_jobs(jobs, 4, Board(), as_edgekit_error).items()):
        print(name, failure and (failure.exit_code, failure.record["message"], failure.record["subject"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux")
def test_each_job_is_held_to_its_own_limits(tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text(WATCHED)
    command = [sys.executable, "watched.py"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert finished.stdout.splitlines() == [
        "hangs (2, 'makes no progress', 'hangs')",
        "swells (2, 'takes too much memory', 'swells')",
        "waits None",
        "works None",
    ]
