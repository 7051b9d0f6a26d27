"""``--junit``: the file that CI services read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from edgekit.errors import EdgeKitError

JUnitOption = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.", show_default=False)
]
_OPTION = "--junit"


def write_junit(file: Path, document: str) -> None:
    """Writes the document completely or not at all.

    Raises:
        InputError: The file cannot be written, or a file of another kind is in its place.
    """
    from edgekit.files.atomic import atomic_file

    _require_xml(file)
    with atomic_file(file, chosen_with=_OPTION) as place:
        place.write_text(document, encoding="utf-8")


def _require_xml(file: Path) -> None:
    from edgekit.files.replacing import require_kind

    require_kind(file, "an XML file", lambda head: head.lstrip()[:1] == b"<", chosen_with=_OPTION)


@contextmanager
def error_in_junit(file: Path | None, command: str) -> Iterator[None]:
    """Writes an error or an interruption that ends the command into the file of ``--junit``.

    Otherwise an older file would stay, and CI services would show the results of another run.

    Raises:
        InputError: The file cannot be written, or a file of another kind is in its place; this is checked before the
            command's work.
    """
    if file is not None:
        from edgekit.files.atomic import require_writable

        require_writable(file, chosen_with=_OPTION)
        _require_xml(file)
    try:
        yield
    except EdgeKitError as error:
        _write_error(file, command, str(error), error.message, type(error).__name__)
        raise
    except KeyboardInterrupt as interrupt:
        message = str(interrupt) or "interrupted"
        _write_error(file, command, message, message, type(interrupt).__name__)
        raise


def _write_error(file: Path | None, command: str, text: str, message: str, kind: str) -> None:
    """Writes a document with one test case, which ended with an error."""
    if file is None:
        return
    from edgekit.reporting.junit_document import junit_document, junit_element, junit_suite

    case = junit_element("testcase", name="begun", classname=command)
    case.append(junit_element("error", text, message=message, type=kind))
    write_junit(file, junit_document(command, [junit_suite(command, [case], 0.0)]))
