"""``edgekit report``: a bundle as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgekit.cli._bundle_options import BundleArgument
from edgekit.cli._command import command
from edgekit.cli._console import Console

ReportOutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.", show_default=False)
]


@command("edgekit report model-ios18 -o report.html")
def report(console: Console, bundle: BundleArgument, output: ReportOutputOption) -> None:
    """Write what a bundle holds as one HTML file that opens without a network."""
    from edgekit.atomic import atomic_file
    from edgekit.bundle import check_integrity, read_bundle
    from edgekit.report.html import html_report

    opened = read_bundle(bundle)
    check_integrity(opened)
    text = html_report(opened.manifest)
    with atomic_file(output) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
    record = {"bundle": str(bundle), "report": str(output), "bytes": len(text.encode())}
    console.show(record, lambda out: out.print(str(output)))
