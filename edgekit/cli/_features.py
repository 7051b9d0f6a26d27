"""Inputs and outputs as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgekit.cli._bundle_view import show_table
from edgekit.features.dimensions import shape_text

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


def render_features(record: Mapping[str, Any], out: RichConsole) -> None:
    """Prints the ``inputs`` and ``outputs`` of a record, each a name, a dtype and a shape."""
    rows = [
        (kind, spec["name"], spec["dtype"], shape_text(spec["shape"]))
        for kind in ("input", "output")
        for spec in record[f"{kind}s"]
    ]
    show_table(("", "name", "type", "shape"), rows, out, untitled="kind")
