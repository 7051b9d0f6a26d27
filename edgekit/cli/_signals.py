"""Ends a command in order when somebody presses Ctrl-C or asks the process to end.

A signal that comes twice within :data:`SECONDS_BETWEEN` counts once: a terminal sends Ctrl-C to every process of a
command, and the one that supervises it hands it on as well.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from edgekit.cli._errors import InterruptedByUserError

SECONDS_BETWEEN = 0.5


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end a command as Ctrl-C does, so that it cleans up."""
    last: dict[int, float] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - last.get(number, -math.inf) < SECONDS_BETWEEN:
            return
        last[number] = now
        raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}" if number != signal.SIGINT else "")

    numbers = []
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread handle signals
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise InterruptedByUserError(str(interruption) or "interrupted", hint="nothing was left behind") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
