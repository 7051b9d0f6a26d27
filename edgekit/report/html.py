"""One HTML file that tells what a bundle holds, and opens without a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from edgekit.report import tables
from edgekit.report.summary import Manifest, summary_rows, warnings


def html_report(manifest: Manifest) -> str:
    """The page's text: the summary first, then accuracy, operators, inputs and outputs, stages and files."""
    title = escape(f"{manifest['name']} for {manifest['target']['profile']}")
    sections = [
        _section("Summary", _table((), summary_rows(manifest)), *map(_note, warnings(manifest))),
        _section(
            "Accuracy by output",
            _table(tables.ACCURACY_HEAD, tables.accuracy_rows(manifest)),
            f"<p>{escape(tables.execution_text(manifest))}</p>",
        ),
        _section("Operators", _table(_OPERATOR_HEAD, _operator_rows(manifest))),
        _section("Inputs and outputs", _table(tables.FEATURE_HEAD, tables.feature_rows(manifest))),
        _section("Stages", _table(tables.STAGE_HEAD, tables.stage_rows(manifest))),
        _section("Files", _table(("file", "size", "SHA-256"), tables.file_rows(manifest))),
    ]
    style = files("edgekit.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


_OPERATOR_HEAD = ("operator", "nodes", "verdict", "evidence", "unit", "")


def _operator_rows(manifest: Manifest) -> Iterator[Sequence[str]]:
    for stage in manifest["stages"]:
        if stage["name"] == "check operators":
            for group in stage["record"]["verdicts"]:
                count = str(len(group["nodes"]))
                yield group["op_type"], count, group["support"], group["evidence"], group["unit"], group["detail"]


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; without a head, the first cell of each row is what the row is about."""
    opening, closing = ("<td>", "</td>") if head else ('<th scope="row">', "</th>")
    lines = ['<div class="scroll"><table>']
    if head:
        lines.append("<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>")
    for first, *others in rows:
        cells = [f"{opening}{escape(first)}{closing}", *(f"<td>{escape(cell)}</td>" for cell in others)]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table></div>"])
