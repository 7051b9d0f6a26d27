from __future__ import annotations

import os
import pty
import subprocess
import sys
import textwrap

import pytest

from edgekit.processes.interruption import InterruptionError, interruption_text

ENDED = """
import sys
from edgekit import __main__ as entry

def end():
    from edgekit.processes.interruption import InterruptionError, interruption_text
    return InterruptionError(interruption_text({number}), hint="").exit_code

entry._command = end
sys.exit(entry.run())
"""


@pytest.mark.parametrize(("number", "text", "code"), [(2, "interrupted", 130), (15, "ended by SIGTERM", 143)])
def test_the_exit_code_is_the_one_that_shells_give(number: int, text: str, code: int) -> None:
    """POSIX (2.8.2 of the shell's language): a command that a signal ended has an exit status above 128; all shells
    that are in use add the signal's number.
    """
    assert interruption_text(number) == text
    error = InterruptionError(text, hint="nothing was left behind")
    assert error.exit_code == code


@pytest.mark.skipif(os.name != "posix", reason="signals end processes on POSIX")
@pytest.mark.parametrize("number", [1, 2, 15])
@pytest.mark.parametrize("supervision", ["0", "1"])
def test_the_process_ends_by_the_signal_itself(number: int, supervision: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDED.format(number=number)],
        check=False,
        timeout=60,
        env={**os.environ, "EDGEKIT_SUPERVISION": supervision},
    )
    assert ended.returncode == -number


@pytest.mark.skipif(os.name != "posix", reason="signals end processes on POSIX")
def test_what_a_command_printed_before_is_not_lost() -> None:
    script = "print('half done')\nfrom edgekit.processes.interruption import end_by_signal\nend_by_signal(143)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, timeout=60, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert (ended.returncode, ended.stdout) == (-15, "half done\n")


@pytest.mark.skipif(os.name != "posix", reason="a loop of a POSIX shell")
def test_ctrl_c_ends_the_loop_that_runs_a_command() -> None:
    """A shell goes on with the next command if one has exited, even with 130."""
    script = textwrap.dedent(
        """
        import sys, time
        import edgekit.registry
        edgekit.registry.installed_targets = lambda: (print("ready", file=sys.stderr, flush=True), time.sleep(60))
        from edgekit.__main__ import run
        sys.argv = ["edgekit", "targets"]
        sys.exit(run())
        """
    )
    child, terminal = pty.fork()
    if child == 0:
        loop = 'for number in 1 2 3; do echo "run $number"; "$0" -c "$1"; echo "code $?"; done'
        os.execvp("bash", ["bash", "-c", loop, sys.executable, script])
    said = ""
    while "ready" not in said:
        said += os.read(terminal, 1000).decode()
    os.write(terminal, b"\x03")
    try:
        while more := os.read(terminal, 1000).decode():
            said += more
    except OSError:  # Linux: the terminal's last process has ended
        pass
    os.waitpid(child, 0)
    assert "interrupted" in said
    assert "run 2" not in said
    assert "code" not in said
