"""What native code is at, and what of it ended a process: that is left out when the work is done anew."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_RESTARTS = 6
"""How often work is done anew without what ended its process."""
_CRASHES = tuple(
    getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE") if hasattr(signal, name)
)
"""By which native code ends a process."""


@dataclass
class Attempts:
    """What the processes that do one piece of work, one after the other, have told of what they try."""

    ended: dict[str, str] = field(default_factory=dict)
    """What ended processes of this work, and by which signal; see :func:`edgekit.processes.crashes.guarded`."""
    _at: set[str] = field(default_factory=set)
    _may_stall: set[str] = field(default_factory=set)
    _restarts: int = 0

    def hear(self, told: Mapping[str, Any]) -> None:
        """Takes note of what a process has ``begun``, and of what it is ``done`` with."""
        self._at |= {told["begun"]} if "begun" in told else set()
        self._may_stall |= {told["begun"]} if told.get("may_stall") else set()
        self._at -= {told.get("done")}

    def stalled(self, why: str) -> bool:
        """Whether the process was ended, for the reason given, at what the work can do without."""
        at = self._at & self._may_stall
        if len(at) != 1 or self._restarts == MOST_RESTARTS:
            return False
        self.ended[at.pop()] = why
        self._at.clear()
        self._restarts += 1
        return True

    def crashed(self, exit_code: int) -> str | None:
        """The signal by which native code ended the process at what the work can do without; None elsewhere.

        Args:
            exit_code: The process's, negative for a signal.
        """
        if -exit_code not in _CRASHES or not self._at or self._restarts == MOST_RESTARTS:
            return None
        name = signal_name(-exit_code)
        # What else was tried at that moment may be innocent: from now on it is one thing at a time.
        self.ended.update(dict.fromkeys(self._at, name) if len(self._at) == 1 else {"several": name})
        self._at.clear()
        self._restarts += 1
        return name


def restart_text(stage: str, signal_of_end: str) -> str:
    """Tells people that work is done anew."""
    return f"stage {stage}: a form of the model ended the process by {signal_of_end}; starting again without it"


def signal_name(number: int) -> str:
    """The name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
