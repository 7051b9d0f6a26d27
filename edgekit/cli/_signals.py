"""Ends a command in order when somebody presses Ctrl-C or asks the process to end.

A signal that comes twice within :data:`SECONDS_BETWEEN` counts once: a terminal sends Ctrl-C to every process of a
command, and the one that supervises it hands it on as well. Python drops what is raised while it finalizes an object or
runs a callback of a library, and native code may drop what an import raises; a signal that came at such a moment comes
again.
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

from edgekit.cli._errors import InterruptedByUserError

SECONDS_BETWEEN = 0.5
_SECONDS_UNTIL_AGAIN = 0.05
"""After an interruption that was dropped: the callback is over by then, as a rule; else it is dropped once more."""
_SECONDS_BETWEEN_LOOKS = 0.2
"""How often it is looked whether an interruption still ends what runs."""


@dataclass
class Interruption:
    """What has asked a command to end; None so far."""

    told: str | None = None


@contextmanager
def interrupted_by_signals() -> Iterator[Interruption]:
    """Lets SIGTERM and SIGHUP end a command as Ctrl-C does, so that it cleans up.

    Whatever a command fails with once such a signal has come is told as the interruption: an import that is cut short
    fails in ways that say nothing of it.

    Raises:
        InterruptedByUserError: A signal has come, and the command failed.
    """
    interruption = Interruption()
    last: dict[int, float] = {}
    main_thread = threading.main_thread().ident
    over = threading.Event()

    def watch() -> None:
        """Sends a signal again once nothing is left of the interruption, and what runs goes on."""
        while not over.wait(_SECONDS_BETWEEN_LOOKS):
            found: Any = sys._current_exceptions().get(main_thread or 0)  # a triple before Python 3.12
            if last and not _is_interrupting(found[1] if isinstance(found, tuple) else found):
                number = max(last, key=lambda known: last[known])
                last.clear()
                os.kill(os.getpid(), number)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - last.get(number, -math.inf) < SECONDS_BETWEEN:
            return
        last[number] = now
        interruption.told = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        raise KeyboardInterrupt(interruption.told)

    again: list[threading.Timer] = []
    hook = sys.unraisablehook

    def send_again(dropped: sys.UnraisableHookArgs) -> None:
        if not (last and isinstance(dropped.exc_value, KeyboardInterrupt)):
            hook(dropped)
            return
        number = max(last, key=lambda known: last[known])
        last.clear()
        again.append(threading.Timer(_SECONDS_UNTIL_AGAIN, os.kill, (os.getpid(), number)))
        again[-1].daemon = True
        again[-1].start()

    numbers = []
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread handle signals
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    sys.unraisablehook = send_again
    watcher = threading.Thread(target=watch, daemon=True)  # started by a signal's handler, it could wait for a lock
    watcher.start()
    try:
        yield interruption
    except InterruptedByUserError:
        raise
    except (Exception, KeyboardInterrupt) as failure:
        if interruption.told is None and not isinstance(failure, KeyboardInterrupt):
            raise
        raise InterruptedByUserError(interruption.told or "interrupted", hint="nothing was left behind") from failure
    finally:
        over.set()
        watcher.join()
        for timer in again:
            timer.cancel()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_interrupting(active: BaseException | None) -> bool:
    """Whether an exception that a thread handles is an interruption, or was raised while it handled one."""
    while active is not None and not isinstance(active, KeyboardInterrupt):
        active = active.__context__
    return active is not None
