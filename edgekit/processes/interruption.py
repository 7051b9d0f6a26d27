"""How a command ends that Ctrl-C or another signal has asked to end: its text, and its exit code."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from edgekit.errors import InputError

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that ask a process to end, as far as the system has them."""

_BY_SIGNAL = 128
"""Shells give a command that a signal ended this number and the signal's as its exit code."""


class InterruptionError(InputError):
    """A signal has asked the command to end: exit code 128 and the signal's number, 130 for Ctrl-C.

    Args:
        message: A text of :func:`interruption_text`.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        number = next((number for number in ENDING_SIGNALS if interruption_text(number) == message), signal.SIGINT)
        self.exit_code = _BY_SIGNAL + number


def interruption_text(number: int) -> str:
    """What an error says of a signal that has asked the command to end."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def end_by_signal(exit_code: int) -> None:
    """Ends this process by the signal that its exit code names; returns if it names none, and on Windows.

    A shell that runs a loop ends the loop only if the signal itself ended the command: after an exit code of 130 it
    goes on with the next one.
    """
    number = exit_code - _BY_SIGNAL
    if os.name == "posix" and number in ENDING_SIGNALS:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
        with suppress(ValueError):  # another thread than the main one
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
