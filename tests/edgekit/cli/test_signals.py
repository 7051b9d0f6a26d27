from __future__ import annotations

import subprocess
import sys

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
