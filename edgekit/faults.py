"""Turns any exception into an error that people can read."""

from __future__ import annotations

import os
import re
import traceback
from importlib.metadata import PackageNotFoundError, requires
from shlex import quote

from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.registry import OWN_PACKAGE, plugin_of

TRACEBACK_VARIABLE = "EDGEKIT_TRACEBACK"
"""Environment variable that asks for the Python traceback of an error."""

_NAME = re.compile(r"[A-Za-z0-9._-]*")
_PACKAGES = {"PIL": "pillow"}
"""Packages whose module has another name."""

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
    if isinstance(failure, ImportError) and (required := _requirement(failure)) is not None:
        return InputError(
            "a package that EdgeKit requires cannot be imported",
            expected=required,
            found=text,
            hint=f"install it: pip install {quote(required)}; if it is installed, another version or system library is "
            "in its way: make a new environment",
        )
    plugin = plugin_at_fault(failure)
    return InternalError(
        f"a fault of {'EdgeKit itself' if plugin is None else f'the plugin {plugin}'}: "
        f"{type(failure).__name__}{': ' if text else ''}{text}",
        hint=f"set {TRACEBACK_VARIABLE}=1 to see where it happened, and report it with the command that you ran"
        + ("" if plugin is None else f" to who makes {plugin}"),
    )


def _requirement(failure: ImportError) -> str | None:
    """The entry among EdgeKit's requirements that names the package that was imported; None if there is none."""
    module = (failure.name or "").partition(".")[0]
    package = _PACKAGES.get(module, module.replace("_", "-").casefold())
    try:
        entries = requires(OWN_PACKAGE) or []
    except PackageNotFoundError:  # a checkout that is not installed
        return None
    needed = [entry for entry in entries if ";" not in entry]  # the others are of extras
    return next((entry for entry in needed if _NAME.match(entry)[0].casefold() == package), None)  # type: ignore[index]


def _first_line(failure: Exception) -> str:
    return str(failure).strip().partition("\n")[0]


def plugin_at_fault(failure: Exception) -> str | None:
    """The package of the innermost plugin in the failure's traceback; None if a frame of EdgeKit's own is deeper."""
    at_fault = None
    for frame, _ in traceback.walk_tb(failure.__traceback__):
        module = frame.f_globals.get("__name__", "")
        at_fault = None if module.partition(".")[0] == OWN_PACKAGE else plugin_of(module) or at_fault
    return at_fault
