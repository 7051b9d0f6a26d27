"""Ends a command in order when somebody presses Ctrl-C or asks the process to end.

A signal that comes twice within :data:`SECONDS_BETWEEN` counts once: a terminal sends Ctrl-C to every process of a
command, and the supervising process forwards it as well. Python drops exceptions that are raised while it finalizes an
object or runs a callback of a library, and native code may drop what an import raises; a signal that came at such a
moment is sent again.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from edgekit.cli._errors import InterruptedByUserError, hint_of_interruption
from edgekit.files.atomic import forget_placed
from edgekit.processes.interruption import ENDING_SIGNALS, interruption_text

SECONDS_BETWEEN = 0.5
_SECONDS_UNTIL_AGAIN = 0.05
"""Delay after an interruption that was dropped: the callback has usually ended by then; if not, it is dropped again."""
_SECONDS_BETWEEN_LOOKS = 0.2
"""How often the watcher checks whether an interruption is still being handled."""


@dataclass
class Interruption:
    """The signal that has asked a command to end, as a text; None if none has."""

    message: str | None = None


@contextmanager
def interrupted_by_signals() -> Iterator[Interruption]:
    """Lets SIGTERM and SIGHUP end a command as Ctrl-C does, so that it cleans up.

    Whatever a command fails with after such a signal is reported as the interruption: an import that is cut short may
    fail with an error that does not mention it.

    Raises:
        InterruptedByUserError: A signal has come, and the command failed.
    """
    forget_placed()
    interruption = Interruption()
    signals = _Signals(interruption)
    signals.begin()
    try:
        yield interruption
    except InterruptedByUserError:
        raise
    except (Exception, KeyboardInterrupt) as failure:
        if interruption.message is None and not isinstance(failure, KeyboardInterrupt):
            raise
        raise InterruptedByUserError(interruption.message or "interrupted", hint=hint_of_interruption()) from failure
    finally:
        signals.end()


class _Signals:
    """Raises a KeyboardInterrupt for each signal, and sends a signal again if its KeyboardInterrupt was dropped.

    Args:
        interruption: Records each signal.
    """

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption
        self._last: dict[int, float] = {}
        """When each signal came whose interruption has not been dropped."""
        self._main_thread = threading.main_thread().ident
        self._over = threading.Event()
        self._again: list[threading.Timer] = []
        self._hook = sys.unraisablehook
        self._before: dict[int, Any] = {}
        # if a signal's handler started the thread, the start could wait for a lock
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        """Handle signals, and watch for interruptions that were dropped."""
        numbers = []
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread handle signals
            numbers = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._interrupt) for number in numbers}
        sys.unraisablehook = self._send_again
        self._watcher.start()

    def end(self) -> None:
        """Restore the previous handlers, and send no signal again."""
        self._over.set()
        self._watcher.join()
        for timer in self._again:
            timer.cancel()
        sys.unraisablehook = self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if now - self._last.get(number, -math.inf) < SECONDS_BETWEEN:
            return
        self._last[number] = now
        message = interruption_text(number)
        self._interruption.message = message
        raise KeyboardInterrupt(message)

    def _watch(self) -> None:
        """Send a signal again if its interruption was dropped and the command goes on."""
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            found: Any = sys._current_exceptions().get(self._main_thread or 0)  # a triple before Python 3.12
            if self._last and not _is_interrupting(found[1] if isinstance(found, tuple) else found):
                os.kill(os.getpid(), self._forget_latest())

    def _send_again(self, dropped: sys.UnraisableHookArgs) -> None:
        """Send a signal again whose interruption Python has dropped."""
        if not (self._last and isinstance(dropped.exc_value, KeyboardInterrupt)):
            self._hook(dropped)
            return
        timer = threading.Timer(_SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), self._forget_latest()))
        timer.daemon = True
        self._again.append(timer)
        timer.start()

    def _forget_latest(self) -> int:
        """Returns the signal that came last, and forgets all signals."""
        number = max(self._last, key=lambda known: self._last[known])
        self._last.clear()
        return number


def _is_interrupting(active: BaseException | None) -> bool:
    """Whether an exception that a thread handles is an interruption, or was raised while it handled one."""
    while active is not None and not isinstance(active, KeyboardInterrupt):
        active = active.__context__
    return active is not None
