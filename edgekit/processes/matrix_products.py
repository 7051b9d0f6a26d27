"""Limits the threads of NumPy's matrix products.

OpenBLAS, which NumPy's wheels contain, computes a product on every processor, and threads that wait for their part spin
meanwhile. While other work runs, they wait for long: products of 1,024 rows of 288 numbers took seven times as much
processor time on two threads as on one, and no less elapsed time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Limits each matrix product of the process to one processor, if threadpoolctl knows the library.

    Threads that are inside the context at the same time have to leave it in the order in which they entered, or the
    original number of threads is not restored.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> ThreadpoolController:
    """The libraries that NumPy is linked with."""
    import numpy  # noqa: F401 - only loaded libraries are found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
