"""Defers the import of modules until they are first used.

onnx-ir imports sympy for arithmetic with symbolic dimensions. These imports take a third of the time in which a command
starts, and EdgeKit seldom does such arithmetic.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType

TYPE_CHECKING = False  # as in edgekit/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from typing import Any


class _DeferredModule(ModuleType):
    """A module whose code runs when an attribute is first read that the module does not have yet."""

    def __getattr__(self, name: str) -> Any:
        loader = self.__loader__
        if isinstance(loader, _DeferringLoader) and not loader.loaded(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self, name)


class _DeferringLoader:
    """Wraps another loader so that the code of its modules runs at their first use.

    :class:`importlib.util.LazyLoader` runs the code at the second ``import`` statement, which reads ``__spec__``.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._lock = RLock()
        self._running = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Does not run the module's code yet, but makes the module run it at its first use."""
        module.__class__ = _DeferredModule

    def loaded(self, module: ModuleType) -> bool:
        """Runs the module's code if it has not run yet; returns False only while this thread is running it."""
        with self._lock:
            if self._running:
                return False
            if isinstance(module, _DeferredModule):
                self._running = True
                try:
                    self._loader.exec_module(module)
                finally:
                    self._running = False
                module.__class__ = ModuleType  # type: ignore[assignment]  # mypy has a module's own class fixed
                module.__loader__ = self._loader
            return True


class _DeferringFinder:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferringLoader(spec.loader)  # type: ignore[assignment]  # duck-typed, as loaders may be
        return spec


def defer(*names: str) -> None:
    """Defers the code of modules that are not imported yet until one of their attributes is first used.

    Args:
        names: The modules' full names. Their submodules are imported as usual unless they are named, too.
    """
    sys.meta_path.insert(0, _DeferringFinder(frozenset(names)))
