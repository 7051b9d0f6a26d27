"""Apple's modules, imported when they are first used, so that the lowerings can be listed without Core AI installed."""

from __future__ import annotations

import importlib
from typing import Any


class _Later:
    """A module that is imported when one of its attributes is first accessed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        importlib.import_module("coreai.authoring")  # the compiler's modules can only be imported after it
        return getattr(importlib.import_module(self._name), attribute)


authoring: Any = _Later("coreai.authoring")
bindings: Any = _Later("coreai._compiler._mlir_libs._coreaiIR._bindings.mlir.dialects.coreai")
dialect: Any = _Later("coreai._compiler.dialects.coreai")
ir: Any = _Later("coreai._compiler.ir")
runtime: Any = _Later("coreai.runtime")
tensor_types: Any = _Later("coreai.authoring.tensor_type")
