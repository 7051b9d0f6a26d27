"""Ends a command in order when somebody presses Ctrl-C or asks the process to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from edgekit.cli._errors import InterruptedByUserError


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end a command as Ctrl-C does, so that it cleans up."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")

    numbers = []
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread handle signals
        numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # not on Windows
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise InterruptedByUserError(str(interruption) or "interrupted", hint="nothing was left behind") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
