"""Tables for people, in a log and on terminals of all widths."""

from __future__ import annotations

import io

from rich.console import Console

from edgekit.cli._bundle_view import show_table
from edgekit.terminal.escaping_console import EscapingConsole

HEAD = ("bundle", "target", "built as", "size", "detail")
ROWS = [
    ("classifier-onnxruntime", "onnxruntime", "quantized (int8-weights)", "332.8 kB", "as large as it is"),
    ("classifier-web", "web", "float32", "1.1 MB", "https://example.com/a-page-whose-name-is-long"),
]
WORDS = {word for row in ROWS for cell in row[:4] for word in cell.split()}


def shown(width: int, *, terminal: bool) -> list[str]:
    out = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    show_table(HEAD, ROWS, out)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_words_are_not_broken() -> None:
    lines = shown(110, terminal=True)
    assert max(map(len, lines)) <= 110
    assert set(" ".join(lines).split()) >= WORDS


def test_a_pipe_gets_as_wide_a_table_as_its_words_ask_for() -> None:
    lines = shown(100, terminal=False)
    assert 100 < max(map(len, lines)) < 130
    assert set(" ".join(lines).split()) >= WORDS


def test_a_terminal_that_is_too_narrow_gets_a_list() -> None:
    assert shown(80, terminal=True)[:6] == [
        "bundle    classifier-onnxruntime",
        "target    onnxruntime",
        "built as  quantized (int8-weights)",
        "size      332.8 kB",
        "detail    as large as it is",
        "",
    ]


def test_a_list_calls_the_column_without_a_title_by_its_name() -> None:
    out = Console(file=io.StringIO(), width=20, color_system=None)
    show_table(("bundle", "", "size"), [("web", "up to date", "1.1 MB")], out, untitled="result")
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.rstrip() for line in lines] == ["bundle  web", "result  up to date", "size    1.1 MB", ""]


def test_so_does_a_pipe_by_its_columns() -> None:
    assert shown(60, terminal=False) == shown(60, terminal=True)


def test_cells_whose_control_characters_are_escaped_are_whole() -> None:
    """The characters have no width before, and four columns afterwards."""
    out = EscapingConsole(file=io.StringIO(), width=100, markup=False, highlight=False)
    show_table(("node", "detail"), [("conv \x01\x02 first", "ok")], out)
    assert r"conv \x01\x02 first" in out.file.getvalue()  # type: ignore[attr-defined]
