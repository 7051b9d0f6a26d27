"""What native code is executing, and what of it ended a process: this is left out when the work is repeated."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_RESTARTS = 6
"""How often work is repeated without what ended its process."""
_CRASHES = tuple(
    getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE") if hasattr(signal, name)
)
"""The signals by which native code ends a process."""


@dataclass
class Attempts:
    """What was tried by the processes that did one piece of work, one after the other, as they reported it."""

    ended: dict[str, str] = field(default_factory=dict)
    """What ended a process of this work -> by which signal; see :func:`edgekit.processes.crashes.guarded`."""
    _at: set[str] = field(default_factory=set)
    _may_stall: set[str] = field(default_factory=set)
    _restarts: int = 0

    def record(self, message: Mapping[str, Any]) -> None:
        """Records what a process has ``begun``, and what it has ``done``."""
        self._at |= {message["begun"]} if "begun" in message else set()
        self._may_stall |= {message["begun"]} if message.get("may_stall") else set()
        self._at -= {message.get("done")}

    def stalled(self, why: str) -> bool:
        """Records that a limit ended the process, and why; returns whether the work can go on without what it tried."""
        at = self._at & self._may_stall
        if len(at) != 1 or self._restarts == MOST_RESTARTS:
            return False
        self.ended[at.pop()] = why
        self._at.clear()
        self._restarts += 1
        return True

    def crashed(self, exit_code: int) -> str | None:
        """Records how a process ended; returns the signal if the work can be repeated without what it tried, else None.

        Args:
            exit_code: The process's exit code, negative for a signal.
        """
        if -exit_code not in _CRASHES or not self._at or self._restarts == MOST_RESTARTS:
            return None
        name = signal_name(-exit_code)
        # If several things were tried at that moment, some may be innocent: from now on, one is tried at a time.
        self.ended.update(dict.fromkeys(self._at, name) if len(self._at) == 1 else {"several": name})
        self._at.clear()
        self._restarts += 1
        return name


def restart_text(stage: str, signal_of_end: str) -> str:
    """The message to people that work is repeated."""
    return f"stage {stage}: a form of the model ended the process by {signal_of_end}; starting again without that form"


def signal_name(number: int) -> str:
    """The name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
