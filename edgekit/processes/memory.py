"""Frees the memory of graphs that are no longer used.

A graph's nodes and values refer to each other, so that the graph and its weights stay in memory until Python searches
for cycles. The number of new objects decides when Python does so, and a graph of 300 MB has few objects: the search
comes after ten copies. Code that drops large graphs calls :func:`free_unused`.

Freed memory does not return to the system by itself: glibc gives back only what lies above everything that is in use,
and a thread does not reuse what another one has freed. After the search for patterns in a graph of 7 MB that was
140 MB.
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
"""Bytes by which the process may grow between two searches for cycles; a search takes a tenth of a second."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_turn = threading.Lock()
_after_search = 0


def free_unused() -> None:
    """Searches for cycles if the process has grown by :data:`GROWTH` since the last call, and frees their memory.

    Freed memory is given back to the system. On systems without ``/proc`` this function does nothing.
    """
    global _after_search
    with _turn:
        for search in (False, True):  # giving back what is free already may be enough
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
    """Glibc's ``malloc_trim``, which gives all free memory back to the system; None if the C library lacks it."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return None
    return trim


def resident() -> int:
    """Bytes that this process has in memory; 0 if unknown."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return 0
