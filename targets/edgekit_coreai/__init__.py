"""ONNX to Core AI models, translated from the ML Programs of the Core ML converter, and executed by Apple's runtime."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgekit_coreai.conversion import convert
    from edgekit_coreai.runner import Runner, load

__all__ = ["Runner", "convert", "load"]

# Public name -> module that defines it, imported when the name is first used, so that `import edgekit_coreai` is fast.
_HOMES = {
    "Runner": "edgekit_coreai.runner",
    "convert": "edgekit_coreai.conversion",
    "load": "edgekit_coreai.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
