"""How the commands show bundles to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.bundle import Bundle


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

    table = Table(*(Column(title, overflow="fold") for title in head), box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    out.print(table)
