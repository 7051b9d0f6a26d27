"""What one command may take: memory, and time without progress."""

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
"""Bytes that the process of a command may have in memory, files that it maps left out."""
MEMORY_PER_MODEL_BYTE = 256
"""What a model's file adds to that."""
MEMORY_PER_SAMPLE_BYTE = 512
"""What the inputs of one sample add, where a data folder is given: tensors inside a network of pictures are dozens of
times as large as the picture."""
MOST_FOR_SAMPLES = 4 << 30
"""Bytes that they add at most, on a machine with four times as much memory or more."""
SECONDS = 20.0
"""Seconds of processor time without a sign of progress after which a stage is ended."""
SECONDS_PER_MODEL_BYTE = 2e-5
"""What a model's file adds to that: twenty seconds a megabyte."""
IDLE_FACTOR = 2.4
"""A stage that uses no processor time either is ended after this multiple of the limit."""
LONGEST_LOOK = 1.0
"""Seconds that count at most between two looks at a process. More means that who looks stood still as well, as where a
command is stopped (Ctrl-Z) or its virtual machine pauses: the process could not work then either."""
IDLE = 0.02
"""Of the time that passes, what a stage that is not stuck works or waits for its turn on a processor, at least."""

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
    def for_model(cls, model_bytes: int, memory: int | None, seconds: float | None, sample_bytes: int = 0) -> Limits:
        """Those that were asked for, and for the others what suits the size of the model and of a sample in bytes."""
        for_samples = min(MEMORY_PER_SAMPLE_BYTE * sample_bytes, MOST_FOR_SAMPLES, _machine_bytes() // 4)
        return cls(
            MEMORY + MEMORY_PER_MODEL_BYTE * model_bytes + for_samples if memory is None else memory,
            SECONDS + SECONDS_PER_MODEL_BYTE * model_bytes if seconds is None else seconds,
        )


def _machine_bytes() -> int:
    """The machine's memory; without a limit where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * _PAGE
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


class Watch:
    """Watches a process; on systems without ``/proc`` only the time."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._folder = Path(f"/proc/{process}")
        self.progressed()

    def progressed(self, patience: float = 0.0) -> None:
        """Takes note of a sign of progress.

        Args:
            patience: Seconds that the next sign may take, where that is more than the limit.
        """
        self._patience = patience
        self._passed, self._looked = 0.0, time.monotonic()
        self._worked = self._processor_seconds()
        self._waited = self._seconds_in_line()

    def broken(self, limits: Limits) -> InputError | None:
        """Which limit the process has gone beyond, if any."""
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
        """Since the last sign of progress, without what passed while nobody looked."""
        now = time.monotonic()
        self._passed += min(now - self._looked, LONGEST_LOOK)
        self._looked = now
        return self._passed

    def end(self) -> None:
        """Ends the process at once, and those that it has started."""
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
        """What the process has used, and those that it has started, whether they have ended or not."""
        ticks = _ticks(self._folder)
        if ticks is None:
            return None
        return (ticks + sum(_ticks(folder) or 0 for folder in _all_started_by(self._folder))) / _TICKS

    def _seconds_in_line(self) -> float:
        """How long threads of the process, and of those that it has started, were ready and other processes ran."""
        return sum(map(_nanoseconds_in_line, [self._folder, *_all_started_by(self._folder)])) / 1e9


def _nanoseconds_in_line(process: Path) -> int:
    """The second number of ``schedstat`` in Linux's ``/proc``, of all threads; 0 where it cannot be told."""
    waited = 0
    with suppress(OSError, ValueError, IndexError):
        for task in (process / "task").iterdir():
            waited += int((task / "schedstat").read_text().split()[1])
    return waited


def _ticks(process: Path) -> int | None:
    """What a process has used, and those that it has waited for; None where it cannot be told."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:15]))


def _all_started_by(process: Path) -> list[Path]:
    """The processes that a process has started, and that these have, as far as they run and the system tells."""
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
    """Has the system refuse what is far beyond the memory limit when it is asked for, in this process and its children.

    A tensor of terabytes is then a `MemoryError` at once, before the first page of it is touched. Runtimes ask for up
    to twice of what they then touch: ONNX Runtime's arena doubles with every extension.
    """
    if sys.platform != "linux":  # elsewhere the limit does not count what an allocator maps
        return
    import resource

    wanted = 2 * limits.memory + _HEADROOM + _HEADROOM_PER_PROCESSOR * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
