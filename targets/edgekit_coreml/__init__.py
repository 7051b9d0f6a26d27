"""ONNX to Core ML ML Programs, and a reference runtime that executes them on any OS."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgekit_mlprogram.conversion import convert
    from edgekit_mlruntime.runner import Runner, load

__all__ = ["Runner", "convert", "load"]

# Public name -> module that holds it, imported when the name is first used: `import edgekit_coreml` stays light.
_HOMES = {
    "Runner": "edgekit_mlruntime.runner",
    "convert": "edgekit_mlprogram.conversion",
    "load": "edgekit_mlruntime.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
