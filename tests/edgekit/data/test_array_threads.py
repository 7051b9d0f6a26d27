"""Arrays that several threads read, as candidates do that are executed side by side."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edgekit.data.npy import read_npy
from edgekit.data.npz import read_npz


class Finalized:
    """Garbage whose end executes Python, in the middle of whatever allocates then."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(20))


@pytest.mark.parametrize("read", [read_npy, read_npz])
def test_threads_read_arrays_at_a_time(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """NumPy reads headers with Python's own parser, which counts its depth over all threads (Python 3.11)."""
    np.save(tmp_path / "x.npy", np.zeros((3, 4), np.float32))
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 4), np.float32))
    file = tmp_path / ("x.npy" if read is read_npy else "x.npz")

    def read_often(_: int) -> None:
        for _ in range(400):
            Finalized()
            read(file)

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(5, 2, 1000)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(read_often, range(3)))
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
