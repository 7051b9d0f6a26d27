"""Processes that tests start measure latencies for a moment: Python imports this module where it is on ``PYTHONPATH``.

The module that measures is changed when it is imported, so that a process that measures nothing does not pay for it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType

MEASURES = "edgekit.timing.latency"
SECONDS = os.environ.get("EDGEKIT_TESTS_ENOUGH_SECONDS", "")


class ShortMeasurements(importlib.abc.MetaPathFinder):
    """Finds the module that measures, and sets how long it does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that sets the seconds behind it; None for any other."""
        if fullname != MEASURES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = ShortLoader(spec.loader.name, spec.loader.path)
        return spec


class ShortLoader(importlib.machinery.SourceFileLoader):
    """Loads it as ever."""

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module, then sets the seconds."""
        super().exec_module(module)
        vars(module)["ENOUGH_SECONDS"] = float(SECONDS)


if SECONDS:
    sys.meta_path.insert(0, ShortMeasurements())
