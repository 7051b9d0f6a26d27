from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DROPPED = """
import os, signal, sys, time
from edgekit.cli._errors import InterruptedByUserError
from edgekit.cli._signals import interrupted_by_signals

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.01)

try:
    with interrupted_by_signals():
        for _ in range({times}):
            Finalized()
        time.sleep(20)
        print("was not interrupted")
except InterruptedByUserError as error:
    print(error)
assert sys.unraisablehook is sys.__unraisablehook__
"""


@pytest.mark.parametrize(("name", "told"), [("SIGTERM", "ended by SIGTERM"), ("SIGINT", "interrupted")])
@pytest.mark.parametrize("times", [1, 3])
def test_a_signal_that_comes_while_an_object_is_finalized_comes_again(name: str, told: str, times: int) -> None:
    """Python prints what is raised in ``__del__``, and goes on."""
    program = DROPPED.format(name=name, times=times)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=15)
    assert (done.stdout, done.stderr) == (f"{told}\nhint: nothing was left behind\n", "")


WRITTEN = """
import os, signal, time
from pathlib import Path
from edgekit.cli._errors import InterruptedByUserError
from edgekit.cli._signals import interrupted_by_signals
from edgekit.files.atomic import atomic_directory, atomic_file

for names in (["model.onnx"], ["bundle", "model.onnx"], []):
    try:
        with interrupted_by_signals():
            for name in names:
                with (atomic_directory(Path(name)) if name == "bundle" else atomic_file(Path(name))) as place:
                    (place / "file" if name == "bundle" else place).write_text("whole")
            with atomic_file(Path("unfinished")) as place:
                place.write_text("ha")
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(20)
    except InterruptedByUserError as error:
        print(error.hint)
"""


def test_what_was_written_before_a_signal_came_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITTEN], capture_output=True, text=True, check=True, timeout=15, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "model.onnx had been written, and is whole",
        "bundle, model.onnx had been written, and are whole",
        "nothing was left behind",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "model.onnx"]


def test_other_errors_of_finalizers_are_told_as_ever() -> None:
    program = DROPPED.format(name="SIGTERM", times=1).replace("os.kill(os.getpid(), signal.SIGTERM)", "1 / 0")
    program = program.replace("time.sleep(20)", "pass")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=15)
    assert done.stdout == "was not interrupted\n"
    assert "ZeroDivisionError" in done.stderr


SWALLOWED = """
import os, signal, time
from edgekit.cli._errors import InterruptedByUserError
from edgekit.cli._signals import interrupted_by_signals

try:
    with interrupted_by_signals():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        {then}
        time.sleep(20)
        print("was not interrupted")
except InterruptedByUserError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("then", "printed"),
    [
        ("except KeyboardInterrupt: pass", ""),
        ("except KeyboardInterrupt: time.sleep(1.2); print('cleaned')", "cleaned\n"),
        ("finally: time.sleep(1.2); print('cleaned')", "cleaned\n"),
    ],
    ids=["dropped", "handled for long", "cleaning for long"],
)
def test_an_interruption_that_is_dropped_comes_again_and_cuts_no_cleaning_short(then: str, printed: str) -> None:
    """Native code clears what an import raises, as ``except KeyboardInterrupt: pass`` does."""
    program = SWALLOWED.format(then=then)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=15)
    assert (done.stdout, done.stderr) == (f"{printed}interrupted\nhint: nothing was left behind\n", "")
