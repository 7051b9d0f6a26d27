"""The options of the commands that search for a quantized model."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from edgekit.errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from edgekit.comparison.custom_metric import Evaluation


@dataclass(frozen=True)
class SearchOptions:
    """``--metric``, ``--workers`` and ``--cluster``: what candidates are judged by, and where."""

    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="MODULE:FUNCTION",
            help="A Python function (run, samples) that gives a number, higher where the model is better; --max-drop "
            "is a share of it.",
            show_default=False,
        ),
    ] = None
    workers: Annotated[
        int,
        typer.Option("--workers", metavar="N", help="Evaluate candidates in N processes of this machine."),
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

    def evaluation(self, *, samples: bool) -> Evaluation | None:
        """The evaluation function that is named.

        Args:
            samples: Whether there are samples that it can run on.

        Raises:
            InputError: It cannot be found or called, or there are no samples.
        """
        from edgekit.comparison.custom_metric import Evaluation

        if self.metric is None:
            return None
        if not samples:
            raise InputError(
                "needs samples to run on",
                subject=f"--metric {self.metric}",
                hint="give --data DIR, a folder of samples",
            )
        return Evaluation(self.metric)

    def executor(self) -> AbstractContextManager[Executor | None]:
        """Opens what evaluates candidates; None where this process does."""
        from edgekit.processes.executors import open_executor

        return open_executor(self.workers, self.cluster)
