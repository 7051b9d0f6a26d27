"""One HTML file that tells what a bundle holds, and opens without a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from edgekit.report.summary import Manifest, bytes_text, decibel_text, summary_rows, warnings


def html_report(manifest: Manifest) -> str:
    """The page's text: the summary first, then accuracy, operators, inputs and outputs, stages and files."""
    accuracy = manifest["accuracy"]
    title = f"{manifest['name']} for {manifest['target']['profile']}"
    sections = [
        _section("Summary", _table((), summary_rows(manifest)), *map(_note, warnings(manifest))),
        _section(
            "Accuracy by output",
            _table(
                ("output", "SQNR", "worst sample", "largest error", "cosine", "same decision", "unequal"),
                (
                    (
                        output["name"],
                        "" if output["sqnr_db"] is None else decibel_text(output["sqnr_db"]),
                        "" if output["worst_sample_db"] is None else decibel_text(output["worst_sample_db"]),
                        "" if output["max_abs_error"] is None else f"{output['max_abs_error']:.3g}",
                        "" if output["cosine"] is None else f"{output['cosine']:.6f}",
                        "" if output["agreement"] is None else f"{output['agreement']:.2%}",
                        f"{output['mismatch']:.2%}",
                    )
                    for output in accuracy["outputs"]
                ),
            ),
            _paragraph(f"Executed by {accuracy['executed_by']}, compared with {accuracy['reference']}."),
        ),
        _section("Operators", _table(("operator", "nodes", "verdict", "evidence", "unit", ""), _operators(manifest))),
        _section("Inputs and outputs", _table(_FEATURE_HEAD, _features(manifest))),
        _section(
            "Stages",
            _table(("stage", "seconds"), ((stage["name"], f"{stage['seconds']:.2f}") for stage in manifest["stages"])),
        ),
        _section(
            "Files",
            _table(
                ("file", "size", "SHA-256"),
                ((file["path"], bytes_text(file["bytes"]), file["sha256"]) for file in manifest["files"]),
            ),
        ),
    ]
    style = files("edgekit.report").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


_FEATURE_HEAD = ("", "name", "type", "shape", "in the model", "type", "shape")


def _features(manifest: Manifest) -> Iterable[Sequence[str]]:
    for kind in ("inputs", "outputs"):
        for feature in manifest[kind]:
            yield (
                kind[:-1],
                feature["name"],
                feature["dtype"],
                _shape(feature["shape"]),
                feature["native_name"],
                feature["native_dtype"],
                _shape(feature["native_shape"]),
            )


def _operators(manifest: Manifest) -> Iterable[Sequence[str]]:
    for stage in manifest["stages"]:
        if stage["name"] == "check operators":
            for group in stage["record"]["verdicts"]:
                count = str(len(group["nodes"]))
                yield group["op_type"], count, group["support"], group["evidence"], group["unit"], group["detail"]


def _shape(shape: Sequence[object]) -> str:
    return "×".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; without a head, the first cell of each row is what the row is about."""
    first = "td" if head else 'th scope="row"'
    lines = ['<div class="scroll"><table>']
    if head:
        lines.append("<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>")
    for row in rows:
        cells = [
            f"<{first}>{escape(str(row[0]))}</{first.split()[0]}>",
            *(f"<td>{escape(str(cell))}</td>" for cell in row[1:]),
        ]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table></div>"])
