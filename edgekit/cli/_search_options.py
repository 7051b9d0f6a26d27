"""The options of the commands that search for a quantized model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True)
class SearchOptions:
    """``--metric``, ``--workers``, ``--cluster`` and ``--like``: how and where candidates are evaluated."""

    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="MODULE:FUNCTION",
            help="Your own measure: a Python function of (run, samples) that returns a number, higher for a better "
            "model. --max-drop is a share of it.",
            show_default=False,
        ),
    ] = None
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", help="Evaluate candidates in N processes on this machine."),
    ] = 1
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Evaluate candidates on a Dask cluster, by its scheduler's address (tcp://…).",
            show_default=False,
        ),
    ] = None
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="BUNDLE",
            help="Choose the candidate that this bundle records, even if another one is faster now.",
            show_default=False,
        ),
    ] = None
