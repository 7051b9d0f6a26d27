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


AgainstOption = Annotated[
    Path | None,
    typer.Option("--against", metavar="BUNDLE", help="A second bundle, shown beside it.", show_default=False),
]


@command("edgekit report model-ios18 -o report.html", "edgekit report model-int8 --against model-float -o report.html")
def report(
    console: Console, bundle: BundleArgument, *, against: AgainstOption = None, output: ReportOutputOption
) -> None:
    """Write what a bundle holds as one HTML file.

    It opens without a network. It tells first whether the bundle ships and why, then size by layer, latency, accuracy,
    the quantizer's trade-off and the operators, and shows the graph.
    """
    from edgekit.atomic import atomic_file
    from edgekit.bundle import check_integrity, read_bundle
    from edgekit.reporting.html import html_report

    bundles = [read_bundle(path) for path in (bundle, against) if path is not None]
    for opened in bundles:
        check_integrity(opened)
    text = html_report(*bundles)
    with atomic_file(output) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
    record = {"bundle": str(bundle), "against": None if against is None else str(against), "report": str(output)}
    console.show({**record, "bytes": len(text.encode())}, lambda out: out.print(str(output)))
