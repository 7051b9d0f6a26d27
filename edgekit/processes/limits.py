"""What one command may take: memory, and time without progress."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from edgekit.errors import InputError

MEMORY = 2 << 30
"""Bytes that the process of a command may have in memory, files that it maps left out."""
MEMORY_PER_MODEL_BYTE = 256
"""What a model's file adds to that."""
SECONDS = 30.0
"""Seconds of work without a sign of progress after which a stage is ended."""
SECONDS_PER_MODEL_BYTE = 2e-5
"""What a model's file adds to that: twenty seconds a megabyte."""
IDLE_FACTOR = 1.6
"""A stage that uses no processor time either is ended after this multiple of the limit."""
IDLE = 0.02
"""Of the time that passes, what a processor spends on a stage that waits for nothing but its turn, at least."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_HEADROOM = 1 << 30
_HEADROOM_PER_PROCESSOR = 64 << 20
"""What allocators and threads reserve without using it."""


@dataclass(frozen=True)
class Limits:
    """What a command may take."""

    memory: int = MEMORY
    """Bytes."""
    seconds: float = SECONDS

    @classmethod
    def for_model(cls, model_bytes: int, memory: int | None, seconds: float | None) -> Limits:
        """Those that were asked for, and for the others what suits the size of the model in bytes."""
        return cls(
            MEMORY + MEMORY_PER_MODEL_BYTE * model_bytes if memory is None else memory,
            SECONDS + SECONDS_PER_MODEL_BYTE * model_bytes if seconds is None else seconds,
        )


class Watch:
    """Watches a process; on systems without ``/proc`` only the time."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")
        self.progressed()

    def progressed(self) -> None:
        """Takes note of a sign of progress."""
        self._since = time.monotonic()
        self._worked = self._processor_seconds()

    def broken(self, limits: Limits) -> InputError | None:
        """Which limit the process has gone beyond, if any."""
        memory = self._memory()
        if memory > limits.memory:
            return InputError(
                "takes too much memory",
                expected=f"{limits.memory / 1e9:.1f} GB at most",
                found=f"{memory / 1e9:.1f} GB",
                hint=f"`--max-memory {max(4, round(2 * limits.memory / 1e9))}GB` allows more, where the model needs it",
            )
        passed = time.monotonic() - self._since
        if passed < limits.seconds:
            return None
        worked = self._processor_seconds()
        busy = passed if worked is None or self._worked is None else min(passed, worked - self._worked)
        if busy < limits.seconds and (passed < IDLE_FACTOR * limits.seconds or busy > IDLE * passed):
            return None
        return InputError(
            "makes no progress",
            expected=f"a sign of it within {limits.seconds:.0f} s",
            found="none",
            hint=f"`--max-seconds {10 * limits.seconds:.0f}` allows longer, where the model needs it",
        )

    def _memory(self) -> int:
        try:
            _, resident, shared, *_ = (self._folder / "statm").read_text().split()
        except OSError:
            return 0
        return (int(resident) - int(shared)) * _PAGE

    def _processor_seconds(self) -> float | None:
        try:
            fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / _TICKS


def limit_allocations(limits: Limits) -> None:
    """Has the system refuse what is far beyond the memory limit when it is asked for, in this process and its children.

    A tensor of terabytes is then a `MemoryError` at once, before the first page of it is touched.
    """
    if sys.platform != "linux":  # elsewhere the limit does not count what an allocator maps
        return
    import resource

    wanted = limits.memory + _HEADROOM + _HEADROOM_PER_PROCESSOR * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
