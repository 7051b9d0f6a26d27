"""Models that each exporter can make: generators of the name, the shapes of dynamic inputs, and a writing function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Shapes = dict[str, list[int]]
Maker = Callable[[Path], None]
"""Writes a model to a path; raises an exception if the exporter fails."""
