"""Memory of graphs that are no longer used.

A graph's nodes and values refer to each other, so that it stays in memory, and its weights with it, until Python
searches for cycles. Python decides when by the number of new objects, and a graph of 300 MB has few: the search comes
after ten copies. Who drops large graphs calls :func:`free_unused`.

What was freed is not the system's yet: glibc gives back what lies above all that is in use, and a thread does not take
what another one has freed. After the search for patterns in a graph of 7 MB that was 140 MB.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

GROWTH = 64 << 20
"""Bytes by which the process may grow between two searches: one takes a tenth of a second."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_turn = threading.Lock()
_after_search = 0


def free_unused() -> None:
    """Searches for cycles where the process has grown by :data:`GROWTH` since the last time, and returns what is free.

    On systems without ``/proc`` it does nothing, and memory is freed when Python finds it.
    """
    global _after_search
    with _turn:
        for search in (False, True):  # what is free already may be all that it has grown by
            _after_search = min(_after_search, resident())
            if resident() - _after_search <= GROWTH:
                return
            if search:
                gc.collect()
            trim = _trim()
            if trim is not None:
                trim(0)
        _after_search = resident()


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """Glibc's ``malloc_trim``, which gives all memory back that is free; None where the C library has none."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return None
    return trim


def resident() -> int:
    """Bytes that this process has in memory, 0 where that is not known."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return 0
