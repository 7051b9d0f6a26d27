from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from edgekit.errors import InputError
from edgekit.terminal.escaping_console import EscapingConsole
from edgekit.terminal.foreign_text import SafeStream, escaped, escaped_json, on_one_line, safe_stream


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Größe 名前 \t\n", "Größe 名前 \t\n"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b2J\x7f\x00\r", "\\x9b2J\\x7f\\x00\\x0d"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_steers_a_terminal_is_escaped(text: str, safe: str) -> None:
    assert escaped(text) == safe


def test_json_says_the_same_in_safe_characters() -> None:
    document = json.dumps({"name": "a\x9b\u202e\x1b\u2028"}, ensure_ascii=False)
    assert escaped_json(document).isprintable()
    assert json.loads(escaped_json(document)) == json.loads(document)


def test_line_breaks_are_escaped_where_one_line_is_wanted() -> None:
    assert on_one_line("a\n::error::b") == "a\\n::error::b"


def stream(*, raw: bool) -> tuple[io.BytesIO, SafeStream]:
    buffer = io.BytesIO()
    return buffer, SafeStream(buffer, "standard output", "utf-8", raw=raw, line_buffering=False)


def written(*parts: str, raw: bool = False) -> str:
    buffer, safe = stream(raw=raw)
    for part in parts:
        safe.write(part)
    safe.flush()
    return buffer.getvalue().decode()


def test_lines_that_a_ci_would_obey_are_defused_wherever_they_begin() -> None:
    assert written("::error::a\n", "x\n  ::add-mask::b\n", "##[group]c\n") == (
        "\\::error::a\nx\n  \\::add-mask::b\n\\##[group]c\n"
    )
    assert written("name ", "::error::a\n") == "name ::error::a\n"


def test_our_own_commands_for_a_ci_pass() -> None:
    buffer, safe = stream(raw=False)
    safe.write_command("::error::a\x1b")
    safe.flush()
    assert buffer.getvalue() == b"::error::a\\x1b\n"


def test_a_terminal_gets_our_colours() -> None:
    assert written("\x1b[1mbold\x1b[0m", raw=True) == "\x1b[1mbold\x1b[0m"


def test_cells_of_tables_are_escaped_and_keep_our_colours() -> None:
    buffer = io.StringIO()
    console = EscapingConsole(file=buffer, force_terminal=True, width=80, color_system="standard")
    table = Table("name")
    table.add_row("\x1b]0;title\x07")
    console.print(table)
    console.print("[red]a\x1b[2J[/]", highlight=False)
    text = buffer.getvalue()
    assert "\\x1b]0;" in text
    assert "\x1b]0;" not in text
    assert "\x1b[31ma\\x1b[2J\x1b[0m" in text


def test_a_full_disk_is_an_error_that_names_the_stream() -> None:
    with Path("/dev/full").open("wb") as full:
        safe = safe_stream(io.TextIOWrapper(full), "standard output")
        safe.write("text")
        with pytest.raises(InputError, match="standard output: cannot be written: no space left on device"):
            safe.flush()


@pytest.mark.parametrize("arguments", [("targets",), ("targets", "--json"), ("--version",), ("--help",)])
@pytest.mark.parametrize("where", ["/dev/full", "closed"])
def test_a_command_whose_output_cannot_be_written_says_so(arguments: tuple[str, ...], where: str) -> None:
    redirection = ">&-" if where == "closed" else f"> {where}"
    finished = subprocess.run(
        ["sh", "-c", f'exec "$0" -m edgekit "$@" {redirection}', sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: standard output: cannot be written: ")
    assert "Traceback" not in finished.stderr


def test_a_command_without_standard_error_still_answers() -> None:
    command = ["sh", "-c", 'exec "$0" -m edgekit targets --json 2>&-', sys.executable]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    assert finished.returncode == 0
    assert json.loads(finished.stdout)
