"""Limits of one command: memory, and time without progress."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgekit.errors import InputError
from edgekit.units import bytes_text

MEMORY = 2 << 30
"""Bytes that the process of a command may have in memory, not counting files that it maps."""
MEMORY_PER_MODEL_BYTE = 256
"""Bytes that are added to :data:`MEMORY` for each byte of the model's file."""
MEMORY_PER_SAMPLE_BYTE = 512
"""Bytes that are added to :data:`MEMORY` for each byte of one sample's inputs, if a data folder is given: tensors
inside a network for pictures are dozens of times as large as the picture."""
MOST_FOR_SAMPLES = 4 << 30
"""Most bytes that are added for a sample; at most a quarter of the machine's memory, too."""
SECONDS = 20.0
"""Seconds of processor time without a sign of progress after which a stage is ended."""
SECONDS_PER_MODEL_BYTE = 2e-5
"""Seconds that are added to :data:`SECONDS` for each byte of the model's file: twenty seconds per megabyte."""
IDLE_FACTOR = 2.4
"""A stage that uses no processor time either is ended after this multiple of the limit."""
LONGEST_LOOK = 1.0
"""Most seconds that are counted between two looks at a process. A longer gap means that the watching process stood
still as well, as when a command is stopped (Ctrl-Z) or its virtual machine pauses: the watched one could not work
either."""
IDLE = 0.02
"""Least share of the time during which a stage that is not stuck works, or waits for a processor."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_HEADROOM = 1 << 30
_HEADROOM_PER_PROCESSOR = 64 << 20
"""Bytes per processor that allocators and threads reserve without using them."""


@dataclass(frozen=True)
class Limits:
    """How much memory a command may take, and how long it may make no progress."""

    memory: int = MEMORY
    """Bytes."""
    seconds: float = SECONDS

    @classmethod
    def for_model(cls, model_bytes: int, memory: int | None, seconds: float | None, sample_bytes: int = 0) -> Limits:
        """The requested limits; for those that are None, what suits the sizes of the model and of a sample in bytes."""
        for_samples = min(MEMORY_PER_SAMPLE_BYTE * sample_bytes, MOST_FOR_SAMPLES, _machine_bytes() // 4)
        return cls(
            MEMORY + MEMORY_PER_MODEL_BYTE * model_bytes + for_samples if memory is None else memory,
            SECONDS + SECONDS_PER_MODEL_BYTE * model_bytes if seconds is None else seconds,
        )


def _machine_bytes() -> int:
    """The machine's memory in bytes; the largest integer if the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * _PAGE
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


class Watch:
    """Watches the memory and the progress of a process; on systems without ``/proc``, only the time that passes."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._folder = Path(f"/proc/{process}")
        self.progressed()

    def progressed(self, patience: float = 0.0) -> None:
        """Records a sign of progress.

        Args:
            patience: Seconds that may pass until the next sign, if that is more than the limit.
        """
        self._patience = patience
        self._passed, self._looked = 0.0, time.monotonic()
        self._worked = self._processor_seconds()
        self._waited = self._seconds_in_line()

    def broken(self, limits: Limits) -> InputError | None:
        """The error for the limit that the process has exceeded; None if it has exceeded none."""
        memory = self._memory()
        if memory > limits.memory:
            return InputError(
                "takes too much memory",
                expected=f"{bytes_text(limits.memory)} at most",
                found=bytes_text(memory),
                hint=f"`--max-memory {max(4, round(2 * limits.memory / 1e9))}GB` allows more, where the model needs it",
            )
        seconds = max(limits.seconds, self._patience)
        passed = self._seconds_passed()
        if passed < seconds:
            return None
        worked = self._processor_seconds()
        busy = passed if worked is None or self._worked is None else min(passed, worked - self._worked)
        alive = busy + self._seconds_in_line() - self._waited
        if busy < seconds and (passed < IDLE_FACTOR * seconds or alive > IDLE * passed):
            return None
        return InputError(
            "makes no progress",
            expected=f"a sign of it within {seconds:.0f} s",
            found="none",
            hint=f"`--max-seconds {10 * seconds:.0f}` allows longer, where the model needs it",
        )

    def _seconds_passed(self) -> float:
        """Seconds since the last sign of progress, without the time during which this process stood still."""
        now = time.monotonic()
        self._passed += min(now - self._looked, LONGEST_LOOK)
        self._looked = now
        return self._passed

    def end(self) -> None:
        """Ends the process and the processes that it has started, at once."""
        started = _all_started_by(self._folder)
        for number in (self._process, *(int(folder.name) for folder in started)):
            with suppress(ProcessLookupError):
                os.kill(number, getattr(signal, "SIGKILL", signal.SIGTERM))

    def _memory(self) -> int:
        try:
            _, resident, shared, *_ = (self._folder / "statm").read_text().split()
        except OSError:
            return 0
        return (int(resident) - int(shared)) * _PAGE

    def _processor_seconds(self) -> float | None:
        """Processor time of the process and those that it has started, ended ones included; None if unknown."""
        ticks = _ticks(self._folder)
        if ticks is None:
            return None
        return (ticks + sum(_ticks(folder) or 0 for folder in _all_started_by(self._folder))) / _TICKS

    def _seconds_in_line(self) -> float:
        """How long threads of the process, and of those that it has started, were ready but waited for a processor."""
        return sum(map(_nanoseconds_in_line, [self._folder, *_all_started_by(self._folder)])) / 1e9


def _nanoseconds_in_line(process: Path) -> int:
    """The sum over all threads of the second number of ``schedstat`` in Linux's ``/proc``; 0 if it cannot be read."""
    waited = 0
    with suppress(OSError, ValueError, IndexError):
        for task in (process / "task").iterdir():
            waited += int((task / "schedstat").read_text().split()[1])
    return waited


def _ticks(process: Path) -> int | None:
    """Clock ticks that a process, and the ended processes that it waited for, have used; None if unknown."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15]))


def _all_started_by(process: Path) -> list[Path]:
    """The running processes that a process has started, directly or indirectly, as far as the system tells."""
    found: list[Path] = []
    waiting = [process]
    while waiting:
        folder = waiting.pop()
        try:
            started = [(task / "children").read_text().split() for task in (folder / "task").iterdir()]
        except OSError:
            continue
        new = [Path("/proc", number) for numbers in started for number in numbers]
        found += new
        waiting += new
    return found


def limit_allocations(limits: Limits) -> None:
    """Makes the system refuse allocations far beyond the memory limit, in this process and its children.

    A tensor of terabytes is then a `MemoryError` at once, before its first page is touched. Runtimes allocate up to
    twice what they then touch: ONNX Runtime's arena doubles with every extension.
    """
    if sys.platform != "linux":  # elsewhere the limit does not count what an allocator maps
        return
    import resource

    wanted = 2 * limits.memory + _HEADROOM + _HEADROOM_PER_PROCESSOR * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
