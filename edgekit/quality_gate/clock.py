"""How long this thread was ready to run while others had the processors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEDULER_STATISTICS = Path("/proc/thread-self/schedstat")
"""ns on a processor, ns of waiting for one, time slices; see Linux's Documentation/scheduler/sched-stats.rst."""


@contextmanager
def waited_seconds(source: Path = SCHEDULER_STATISTICS) -> Iterator[Callable[[], float]]:
    """What tells the seconds that the thread has waited for a processor so far; always 0 where the system does not say.

    It is to be called in the thread that entered the context. A call takes one or two microseconds.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY)
    except OSError:  # not Linux, or a kernel that keeps no such account
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(descriptor, 80, 0).split()[1]) * 1e-9
    finally:
        os.close(descriptor)
