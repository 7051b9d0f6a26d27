"""How many threads NumPy's matrix products take.

OpenBLAS, which NumPy's wheels bring, computes a product on every processor, and threads that wait for their part run in
a loop meanwhile. Beside other work they wait for long: products of 1,024 rows of 288 numbers took seven times as much
of the processors' time on two threads as on one, and no less time.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")
"""What wheels and distributions call OpenBLAS's functions."""

_turn = threading.Lock()
_inside = 0
_before = 1


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Lets matrix products of all threads take one processor each; without OpenBLAS they take what they take."""
    global _inside, _before
    functions = _functions()
    if functions is None:
        yield
        return
    get, set_to = functions
    with _turn:
        if not _inside:
            _before = get()
            set_to(1)
        _inside += 1
    try:
        yield
    finally:
        with _turn:
            _inside -= 1
            if not _inside:
                set_to(_before)


@functools.cache
def _functions() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """OpenBLAS's functions that tell and set the number of its threads; None where NumPy has another library."""
    library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)  # finds what it is linked with, too
    for name in _NAMES:
        get, set_to = (getattr(library, name.format(what), None) for what in ("get", "set"))
        if get is not None and set_to is not None:
            return get, set_to
    return None
