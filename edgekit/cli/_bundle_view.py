"""How the commands show bundles to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.bundle import Bundle


SHORT = 16
"""Cells of a column that holds none longer than this stay on one line."""


def show_summary(bundle: Bundle, out: RichConsole) -> None:
    """Prints what the bundle is and how good."""
    from edgekit.reporting.summary import summary_rows

    show_rows([("bundle", str(bundle.path)), *summary_rows(bundle.manifest)], out)


def show_rows(rows: Sequence[tuple[str, str]], out: RichConsole) -> None:
    """Prints labels and texts in two columns."""
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        out.print(f"{label:<{width}}  {text}", soft_wrap=True)


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]], out: RichConsole) -> None:
    """Prints a table with a head; what is too long for its column goes on in the next line."""
    from rich import box
    from rich.table import Column, Table

    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    columns = [
        Column(title, overflow="fold", no_wrap=width <= SHORT) for title, width in zip(head, widths, strict=True)
    ]
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in lines[1:]:
        table.add_row(*row)
    out.print(table)
