"""Opens OpenVINO so that signals still reach the process."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def new_core() -> Any:
    """An ``openvino.Core`` whose CPU plugin leaves the thread's alternate signal stack as it is.

    The plugin installs a stack of its own. If plugins are unloaded in another order or thread than they were loaded,
    the thread keeps a stack that is freed, and the next signal that Python handles, such as Ctrl-C, ends the process.
    """
    import openvino

    core = openvino.Core()
    with _kept_signal_stack():
        core.get_property("CPU", "FULL_DEVICE_NAME")  # loads the plugin
    return core


class _SignalStack(ctypes.Structure):
    """``stack_t`` of Linux."""

    _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def _kept_signal_stack() -> Iterator[None]:
    """Restores this thread's alternate signal stack on exit, or removes it if there was none; Linux only."""
    if sys.platform != "linux":
        yield
        return
    library, before = ctypes.CDLL(None), _SignalStack()
    library.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        library.sigaltstack(ctypes.byref(before), None)
