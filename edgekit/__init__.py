"""EdgeKit: takes a trained ONNX model, gets it onto the device, and proves that it still works.

The functions of :mod:`edgekit.api` are attributes of this package. Importing it costs nothing heavy: what they need is
imported when the first of them is used.
"""

from __future__ import annotations

import os

from edgekit.deferred_imports import defer

defer("sympy", "onnx_ir._symbolic_shapes")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when the library is loaded: nothing is sent about models

TYPE_CHECKING = False  # type checkers take it as true; importing typing is most of what this module would cost
if TYPE_CHECKING:
    from typing import Any

    from edgekit.api import (
        bench,
        build,
        check,
        extract,
        fix,
        gate,
        inspect,
        load,
        package,
        quantize,
        record,
        report,
        sign,
        targets,
        throughput,
        verify,
    )

__version__ = "0.1.0"

__all__ = [
    "bench",
    "build",
    "check",
    "extract",
    "fix",
    "gate",
    "init",
    "inspect",
    "load",
    "package",
    "quantize",
    "record",
    "report",
    "sign",
    "targets",
    "throughput",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("edgekit.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
