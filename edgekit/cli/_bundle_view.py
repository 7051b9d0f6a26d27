"""How the commands show bundles to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgekit.cli._console import PIPE_WIDTH
from edgekit.terminal.foreign_text import escaped

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.bundle import Bundle


SHORT = 16
"""The cells of a column stay on one line if none is longer than this."""
LONGEST_WORD = 30
"""Columns are as wide as their longest word; words longer than this, such as addresses, may be broken."""


def show_summary(bundle: Bundle, out: RichConsole) -> None:
    """Prints what the bundle is and how good it is."""
    from edgekit.reporting.summary import summary_rows

    show_rows([("bundle", str(bundle.path)), *summary_rows(bundle.manifest)], out)


def show_rows(rows: Sequence[tuple[str, str]], out: RichConsole) -> None:
    """Prints labels and texts in two columns."""
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        out.print(f"{label:<{width}}  {text}", soft_wrap=True)


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]], out: RichConsole, *, untitled: str = "") -> None:
    """Prints a table with a head; long cells are wrapped between words.

    In a pipe, the table is as wide as its longest words need. A terminal (or ``COLUMNS``) that is narrower gets a list
    instead: each row's cells one below the other, with the column's title in front.

    Args:
        head: The titles.
        rows: Rows with a cell for each title.
        out: The console to print on.
        untitled: The name in a list of a column whose title is empty.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Column, Table

    lines = [[escaped(cell) for cell in line] for line in (head, *rows)]  # before widths are counted
    titled = list(zip(*lines, strict=True))
    wanted = [max(map(cell_len, column)) for column in titled]
    words = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in titled]
    least = [min(width, max(SHORT, min(word, LONGEST_WORD))) for width, word in zip(wanted, words, strict=True)]
    frame = 3 * len(head) + 1  # a blank at both sides of a column, one between two, and one at each end
    too_wide = sum(least) + frame > out.width
    if too_wide and (out.is_terminal or out.width < PIPE_WIDTH):
        _show_list([title or untitled for title in head], lines[1:], out)
        return
    width = sum(least) + frame if too_wide else out.width
    widths = _shared_out(wanted, least, width - frame)
    columns = [Column(title, overflow="fold", width=width) for title, width in zip(head, widths, strict=True)]
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in lines[1:]:
        table.add_row(*row)
    out.width = max(out.width, width)  # later output is wrapped separately
    out.print(table)


def _show_list(head: Sequence[str], rows: Iterable[Sequence[str]], out: RichConsole) -> None:
    """Prints the cells of each row one below the other; empty ones are left out."""
    from rich.table import Column, Table

    width = max(map(len, head))
    for row in rows:
        cells = Table.grid(Column(width=width), Column(overflow="fold"), padding=(0, 2))
        for title, cell in zip(head, row, strict=True):
            if cell:
                cells.add_row(title, cell)
        out.print(cells)
        out.print()


def _shared_out(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths of the columns: narrow columns get the width that they want, the others share the rest equally."""
    widths = list(least)
    while widths != list(wanted) and sum(widths) < room:
        growing = [place for place, width in enumerate(widths) if width < wanted[place]]
        narrowest = min(growing, key=lambda place: widths[place])
        widths[narrowest] += 1
    return widths
