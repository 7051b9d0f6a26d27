"""How many threads NumPy's matrix products take.

OpenBLAS, which NumPy's wheels bring, computes a product on every processor, and threads that wait for their part run in
a loop meanwhile. Beside other work they wait for long: products of 1,024 rows of 288 numbers took seven times as much
of the processors' time on two threads as on one, and no less time.
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
    """Lets matrix products of the process take one processor each; a library that threadpoolctl does not know does not.

    Threads that are inside at the same time have to end in the order in which they began, or the first number of
    threads is not given back.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> ThreadpoolController:
    """The libraries that NumPy is linked with."""
    import numpy  # noqa: F401 - what is not loaded is not found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
