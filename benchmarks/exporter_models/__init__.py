"""What each exporter can make: generators of a model's name, the shapes of its dynamic inputs, and what writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Shapes = dict[str, list[int]]
Maker = Callable[[Path], None]
"""Writes a model to a path; raises where its exporter cannot."""
