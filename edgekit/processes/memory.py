"""Memory of graphs that are no longer used.

A graph's nodes and values refer to each other, so that it stays in memory, and its weights with it, until Python
searches for cycles. Python decides when by the number of new objects, and a graph of 300 MB has few: the search comes
after ten copies. Who drops large graphs calls :func:`free_unused`.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

GROWTH = 256 << 20
"""Bytes by which the process may grow between two searches: one takes a tenth of a second."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_STATM = Path("/proc/self/statm")
_after_search = 0


def free_unused() -> None:
    """Searches for cycles where the process has grown by :data:`GROWTH` since the last time.

    On systems without ``/proc`` it does nothing, and memory is freed when Python finds it.
    """
    global _after_search
    _after_search = min(_after_search, resident())
    if resident() - _after_search > GROWTH:
        gc.collect()
        _after_search = resident()


def resident() -> int:
    """Bytes that this process has in memory, 0 where that is not known."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return 0
