"""A console for tables and colored lines with texts that come from files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from edgekit.terminal.foreign_text import escaped


class EscapingConsole(Console):
    """Rich's console, which escapes control characters in every text before it adds its own colors."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Prints; a line of text is not wrapped, so that a path in it can be copied. Tables fit the console's width."""
        only_text = all(isinstance(one, str) for one in objects)
        super().print(*objects, soft_wrap=only_text if soft_wrap is None else soft_wrap, **options)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The escaped segments of what is printed; each cell of a table is rendered by a call of its own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)
