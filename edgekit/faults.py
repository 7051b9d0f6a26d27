"""Turns any exception into an error that people can read."""

from __future__ import annotations

import os
import re
import traceback

from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.registry import OWN_PACKAGE, plugin_of

TRACEBACK_VARIABLE = "EDGEKIT_TRACEBACK"
"""Environment variable that asks for the Python traceback of an error."""

_OUT_OF_MEMORY = re.compile(r"cannot allocate memory|failed to allocate memory|\bbad[_ ]alloc", re.IGNORECASE)
"""How the system, ONNX Runtime and the C++ library report a lack of memory, where Python raises a MemoryError."""


def as_edgekit_error(failure: Exception) -> EdgeKitError:
    """Returns the failure as an error with an exit code: a bad input, or a fault of EdgeKit or of a plugin."""
    if isinstance(failure, EdgeKitError):
        return failure
    if isinstance(failure, MemoryError) or _OUT_OF_MEMORY.search(str(failure)):
        return InputError(
            f"needs more memory than there is: {_first_line(failure)}" if str(failure) else "needs too much memory",
            hint="`--max-memory SIZE` allows more, where the model needs it",
        )
    if isinstance(failure, RecursionError):
        return InputError("the input is nested too deeply")
    if isinstance(failure, OSError) and failure.errno is not None:
        what = failure.filename if failure.filename is None else os.fsdecode(failure.filename)
        return InputError(f"the system refuses it: {(failure.strerror or str(failure)).lower()}", subject=what)
    text = " ".join(str(failure).split())
    plugin = plugin_at_fault(failure)
    return InternalError(
        f"a fault of {'EdgeKit itself' if plugin is None else f'the plugin {plugin}'}: "
        f"{type(failure).__name__}{': ' if text else ''}{text}",
        hint=f"set {TRACEBACK_VARIABLE}=1 to see where it happened, and report it with the command that you ran"
        + ("" if plugin is None else f" to who makes {plugin}"),
    )


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0]


def plugin_at_fault(failure: Exception) -> str | None:
    """The package of the innermost plugin in the failure's traceback; None if a frame of EdgeKit's own is deeper."""
    at_fault = None
    for frame, _ in traceback.walk_tb(failure.__traceback__):
        module = frame.f_globals.get("__name__", "")
        at_fault = None if module.partition(".")[0] == OWN_PACKAGE else plugin_of(module) or at_fault
    return at_fault
