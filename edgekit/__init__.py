"""EdgeKit: takes a trained ONNX model, gets it onto the device, and proves that it still works.

The functions of :mod:`edgekit.api` are attributes of this package. Importing the package is cheap: what these functions
need is imported when one of them is first used.
"""

from __future__ import annotations

import os

from edgekit.deferred_imports import defer

defer("sympy", "onnx_ir._symbolic_shapes")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # ONNX Runtime reads it at import: no data about models is sent

TYPE_CHECKING = False  # type checkers treat it as true; typing would take most of this module's import time
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
