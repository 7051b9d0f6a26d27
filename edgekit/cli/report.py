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

    The file opens without a network. It first says whether the bundle ships and why. Then it shows the candidates, the
    accuracy, the latency, the size by layer, the graph and the operators.
    """
    from edgekit import api

    api.report(bundle, output, against=against)
    record = {"bundle": str(bundle), "against": None if against is None else str(against), "report": str(output)}
    console.show({**record, "bytes": output.stat().st_size}, lambda out: out.print(str(output)))
