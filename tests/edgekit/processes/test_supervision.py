from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

PROGRAM = """
import sys, os, time, signal, ctypes, tempfile
from edgekit.cli import end_with_error
from edgekit.processes import supervision
from edgekit.processes.limits import Limits

def work():
{body}

sys.exit(supervision.supervised(work, end_with_error))
"""


def program(body: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "))]


def run(body: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [*program(body), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
        stdin=subprocess.DEVNULL,
    )


def test_the_exit_code_and_what_is_printed_come_through(tmp_path: Path) -> None:
    finished = run("print('out')\nprint('err', file=sys.stderr)\nsys.stdout.flush()\nreturn 1", tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (1, "out\n", "err\n")


def test_native_code_that_aborts_is_an_error_that_names_the_stage_and_the_last_words(tmp_path: Path) -> None:
    body = r"""
    supervision.tell(stage="load", subject="m.onnx")
    os.write(2, b"terminate called: \x1b[31mvector\n")
    os.abort()
    """
    finished = run(body, tmp_path)
    assert finished.returncode == 2
    assert finished.stderr.splitlines()[:3] == [
        "error: m.onnx: stage load: the process that ran it was ended by SIGABRT",
        "expected: a model that the libraries under EdgeKit can take",
        "found: terminate called: \\x1b[31mvector",
    ]
    assert finished.stdout == ""


def test_the_error_is_json_where_that_is_asked_for(tmp_path: Path) -> None:
    finished = run("supervision.tell(stage='load')\nos.kill(os.getpid(), signal.SIGSEGV)", tmp_path, "--json")
    record = json.loads(finished.stdout)["error"]
    assert record["exit_code"] == finished.returncode == 2
    assert record["message"] == "stage load: the process that ran it was ended by SIGSEGV"


def test_a_process_that_ends_itself_without_a_result_is_no_success(tmp_path: Path) -> None:
    finished = run("os._exit(0)", tmp_path)
    assert finished.returncode == 2
    assert "ended with exit code 0" in finished.stderr


def test_a_crash_after_the_result_changes_nothing(tmp_path: Path) -> None:
    finished = run("import atexit\natexit.register(os.abort)\nreturn 0", tmp_path)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched on Linux")
def test_memory_over_the_limit_ends_the_stage(tmp_path: Path) -> None:
    body = """
    supervision.tell(stage="verify", limits=vars(Limits(memory=300_000_000)))
    kept = [bytearray(b"x") * 10_000_000 for _ in range(200)]
    time.sleep(30)
    """
    finished = run(body, tmp_path)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: stage verify: takes too much memory\nexpected: 300 MB at most\nfound: ")
    assert "hint: `--max-memory 4GB` allows more" in finished.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not count what is mapped")
def test_memory_far_beyond_the_limit_is_refused_before_it_is_touched(tmp_path: Path) -> None:
    start = time.monotonic()
    finished = run("try:\n    bytearray(1 << 40)\nexcept MemoryError:\n    return 2\nreturn 0", tmp_path)
    assert finished.returncode == 2
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("work", ["while True: pass", "while True: time.sleep(10)"])
def test_a_stage_without_progress_is_ended(tmp_path: Path, work: str) -> None:
    finished = run(f"supervision.tell(stage='fix', limits=vars(Limits(seconds=1.0)))\n{work}", tmp_path)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: stage fix: makes no progress\nexpected: a sign of it within 1 s\n")
    assert "`--max-seconds 10`" in finished.stderr


def test_a_step_that_is_told_as_slow_may_take_longer_than_the_limit_and_the_next_may_not(tmp_path: Path) -> None:
    body = """
    supervision.tell(stage="verify", limits=vars(Limits(seconds=1.0)))
    with supervision.slow_step(30.0):
        end = time.process_time() + 2.5
        while time.process_time() < end:
            pass
    supervision.tell(stage="compare")
    while True:
        pass
    """
    finished = run(body, tmp_path)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: stage compare: makes no progress\nexpected: a sign of it within 1 s\n")


def test_a_slow_step_is_held_to_the_limit_that_was_asked_for(tmp_path: Path) -> None:
    body = """
    supervision.set_limits(None, 1.0)
    supervision.tell(stage="verify", limits=vars(Limits(seconds=1.0)))
    with supervision.slow_step(30.0):
        while True:
            pass
    """
    finished = run(body, tmp_path)
    assert finished.stderr.startswith("error: stage verify: makes no progress\nexpected: a sign of it within 1 s\n")


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is watched on Linux")
def test_a_stage_is_not_idle_while_a_process_that_it_started_works(tmp_path: Path) -> None:
    """Its child works for three times what an idle stage may wait, though on a fifth of a processor."""
    body = """
    import subprocess
    supervision.tell(stage="compile", limits=vars(Limits(seconds=2.0)))
    work = "import time\\nfor _ in range(70):\\n    time.sleep(0.15)\\n    end = time.process_time() + 0.02\\n"
    work += "    while time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
    return 0
    """
    finished = run(body, tmp_path)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is watched on Linux")
def test_what_a_started_process_works_counts_and_ends_with_the_stage(tmp_path: Path) -> None:
    body = f"""
    import subprocess
    supervision.tell(stage="compile", limits=vars(Limits(seconds=1.0)))
    work = "import os, pathlib\\npathlib.Path({str(tmp_path / "number")!r}).write_text(str(os.getpid()))\\n"
    subprocess.run([sys.executable, "-c", work + "while True: pass"])
    """
    finished = run(body, tmp_path)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: stage compile: makes no progress\n")
    state = Path("/proc", (tmp_path / "number").read_text(), "stat")
    end = time.monotonic() + 20
    while time.monotonic() < end:  # an ended process stays in the list until the system removes it
        try:
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.05)
    pytest.fail("the started program runs on")


def test_steps_keep_a_stage_alive(tmp_path: Path) -> None:
    body = """
    supervision.tell(limits=vars(Limits(seconds=2.0)))
    for _ in range(30):
        time.sleep(0.2)
        supervision.tell_step()
    return 0
    """
    assert run(body, tmp_path).returncode == 0


def test_a_step_may_tell_how_long_the_next_one_takes(tmp_path: Path) -> None:
    body = """
    supervision.tell(stage="compile", limits=vars(Limits(seconds=1.0)))
    supervision.tell_step(30.0)
    end = time.process_time() + 2.5
    while time.process_time() < end:
        pass
    supervision.tell_step()
    while True:
        pass
    """
    finished = run(body, tmp_path)
    assert finished.stderr.startswith("error: stage compile: makes no progress\nexpected: a sign of it within 1 s\n")
    used = run(body.replace("while True:\n        pass", "return 0"), tmp_path)
    assert used.returncode == 0, used.stderr


def test_temporary_files_are_gone_however_it_ends(tmp_path: Path) -> None:
    for end in ("return 0", "os.abort()", "os._exit(7)"):
        run(f"open(tempfile.mkstemp()[1], 'w').close()\ntempfile.mkdtemp()\n{end}", tmp_path)
        assert list(tmp_path.iterdir()) == []


@contextmanager
def running(body: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    with subprocess.Popen(program(body), stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a process with its parent")
def test_a_process_in_native_code_is_killed_a_while_after_it_is_asked_to_end(tmp_path: Path) -> None:
    body = """
    supervision.tell(stage="convert", subject="m.onnx")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # as deaf as native code that does not return
    print(os.getpid(), flush=True)
    while True: pass
    """
    with running(body, tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        child = int(process.stdout.readline())
        process.terminate()
        assert process.wait(60) == 143
        assert not Path(f"/proc/{child}").exists()
        assert process.stderr.read() == "error: ended by SIGTERM\nhint: nothing was left behind\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a process with its parent")
def test_nothing_outlives_a_supervisor_that_is_killed_and_the_next_one_sweeps(tmp_path: Path) -> None:
    body = "tempfile.mkdtemp()\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    with running(body, tmp_path) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        end = time.monotonic() + 10
        while Path(f"/proc/{child}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not Path(f"/proc/{child}").exists()
    assert len(list(tmp_path.iterdir())) == 1
    run("return 0", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_handed_on(tmp_path: Path, number: signal.Signals) -> None:
    body = """
    def end(number, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, end)
    try:
        print("ready", flush=True)
        while True:  # a signal that comes just before a sleep is handled after it
            time.sleep(0.05)
    except KeyboardInterrupt:
        return 2
    """
    with running(body, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")],
    ids=["ctrl-c", "sigterm"],
)
def test_a_command_that_is_ended_while_it_starts_says_so_and_blames_nobody(
    digits: Path, tmp_path: Path, number: signal.Signals, told: str
) -> None:
    package = [sys.executable, "-m", "edgekit", "package", str(digits), "--target", "onnxruntime", "--dim", "batch=1"]
    for moment in range(8):
        with subprocess.Popen(
            [*package, "-q", "-o", str(tmp_path / "out")],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", "TMPDIR": str(tmp_path)},
        ) as process:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not children.read_text():
                time.sleep(0.001)
            time.sleep(0.04 * moment)  # the imports of a command take longer than all of these
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (-number, f"error: {told}\nhint: nothing was left behind\n"), moment
    assert [path.name for path in tmp_path.iterdir() if path.name != "digits"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_when_all_is_done_changes_no_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    late = f"""
code = supervision.supervised(work, end_with_error)
os.kill(os.getpid(), {number:d})
sys.exit(code)
"""
    text = PROGRAM.format(body="    return 1").replace("sys.exit(supervision.supervised(work, end_with_error))\n", late)
    assert subprocess.run([sys.executable, "-c", text], check=False, timeout=60, cwd=tmp_path).returncode == 1


def test_a_signal_that_comes_before_the_child_can_handle_it_is_no_fault_of_the_model(tmp_path: Path) -> None:
    body = """
    supervision.tell(stage="start", subject="m.onnx")
    print("ready", flush=True)
    try:
        while True:  # a signal that comes just before a sleep is handled after it
            time.sleep(0.05)
    except KeyboardInterrupt:
        raise ValueError("an import that was cut short") from None
    """
    with subprocess.Popen(program(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "error: interrupted\nhint: nothing was left behind\n")


TRIES = """
    from edgekit.processes.crashes import CrashError, guarded
    supervision.tell(stage="quantize")
    def attempt(name):
        try:
            with guarded(name):
                if name in sys.argv[1:]:
                    os.kill(os.getpid(), signal.SIGSEGV)
                print(name, "holds", flush=True)
        except CrashError as error:
            print(name, error.message, error.found, flush=True)
"""
WARNING = "warning: stage quantize: a form of the model ended the process by SIGSEGV; starting again without that form"


def test_what_crashes_is_left_out_and_the_rest_is_done(tmp_path: Path) -> None:
    body = TRIES + "    for name in ('int8', 'weights', 'float'): attempt(name)\n    return 0"
    finished = run(body, tmp_path, "int8", "weights")
    assert finished.returncode == 0
    assert finished.stdout.splitlines() == [
        "int8 it ended the process SIGSEGV",  # the second process, which the next one ends
        "int8 it ended the process SIGSEGV",
        "weights it ended the process SIGSEGV",
        "float holds",
    ]
    assert finished.stderr.splitlines() == [WARNING, WARNING]


def test_one_of_several_that_are_tried_at_once_is_found(tmp_path: Path) -> None:
    body = TRIES + (
        "    from concurrent.futures import ThreadPoolExecutor\n"
        "    with guarded('another that waits'):\n"
        "        if not supervision.crashed(): attempt('int8')\n"
        "    attempt('int8')\n    return 0"
    )
    finished = run(body, tmp_path, "int8")
    assert finished.returncode == 0
    assert finished.stdout.splitlines() == ["int8 it ended the process SIGSEGV"]
    assert finished.stderr.splitlines() == [WARNING, WARNING]


def test_what_makes_no_progress_is_left_out_where_the_work_can_do_without(tmp_path: Path) -> None:
    body = """
    from edgekit.processes.crashes import CrashError, guarded

    supervision.tell(limits=vars(Limits(seconds=2.0)))
    for name in ("one", "two", "three"):
        supervision.tell(stage=f"judge {name}")
        try:
            with guarded(name, may_stall=True):
                while name == "two":
                    pass
                print(name)
        except CrashError as error:
            print(name, error.found)
    sys.stdout.flush()
    return 1
    """
    finished = run(body, tmp_path)
    assert finished.stdout.endswith("one\ntwo makes no progress (expected: a sign of it within 2 s)\nthree\n")
    assert finished.stderr == (
        "warning: stage judge two: makes no progress; starting again without the part that was running\n"
    )
    assert finished.returncode == 1


def test_a_crash_outside_of_what_is_guarded_ends_the_command(tmp_path: Path) -> None:
    finished = run(TRIES + "    attempt('int8')\n    os.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    assert finished.returncode == 2
    assert finished.stdout == "int8 holds\n"
    assert finished.stderr.startswith("error: stage quantize: the process that ran it was ended by SIGSEGV")


def test_no_more_than_a_few_restarts(tmp_path: Path) -> None:
    body = TRIES + "    for number in range(20): attempt(str(number))\n    return 0"
    finished = run(body, tmp_path, *map(str, range(20)))
    assert finished.returncode == 2
    assert finished.stderr.count(WARNING) == 6
    assert "error: stage quantize: the process that ran it was ended by SIGSEGV" in finished.stderr
