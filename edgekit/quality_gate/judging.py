"""Judges the figures in a bundle's manifest by its budget. A figure that was not measured does not pass."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle
from edgekit.comparison.floors import LOSS_DIGITS, loss
from edgekit.config import Budget
from edgekit.quality_gate.baseline import Figures
from edgekit.quality_gate.verdict import Figure, Outcome, Verdict, verdict_on
from edgekit.reporting.accuracy_texts import no_signal_text, worst_db
from edgekit.reporting.summary import stage_record
from edgekit.stages.check import CheckOperators
from edgekit.stages.verify import Verify
from edgekit.units import beyond_text, bytes_texts, decibel_text, limit_text, share_limit_text, share_text

GROWTH = Budget(size_growth=0.01, accuracy_fall=0.005, latency_growth=0.05)
"""How much worse than its baseline a bundle may be if the project sets no limit: 1 % in size, half a point in accuracy,
5 % in latency."""

_PIECE = 1 << 20

ACCURACY_FALL = "accuracy fall"
NO_LABELS = "not measured: the samples had no labels"
NO_EARLIER_LABELS = "the earlier build has no accuracy: its samples had no labels"
NEITHER_LABELS = "the samples of neither build had labels"
NO_UNITS = "not known: the bundle's check of operators does not record where nodes run"


def judge_manifest(bundle: Bundle, budget: Budget) -> Iterator[Verdict]:
    """One verdict for each limit that the bundle's files suffice to check: not for latency, memory and growth."""
    manifest = bundle.manifest
    if budget.size is not None:
        yield _on_bytes("size", budget.size, manifest["size"]["bytes"])
    if budget.download is not None:
        yield _on_bytes("download", budget.download, download_size(bundle), " compressed")
    yield from _on_accuracy(manifest, budget)
    yield from _on_operators(stage_record(manifest, CheckOperators.name), budget)


def _on_bytes(key: str, most: int, size: int, how: str = "") -> Verdict:
    limit, found = bytes_texts(most, size)
    return verdict_on(key, f"at most {limit}", f"{found}{how}", size <= most, Figure(key, "bytes", most, size))


def _on_accuracy(manifest: Mapping[str, Any], budget: Budget) -> Iterator[Verdict]:
    """Verdicts on the accuracy by labels, by the project's own function, and by the numbers of the outputs."""
    task = manifest["accuracy"]["task"]
    evaluation = stage_record(manifest, Verify.name).get("evaluation")
    if budget.accuracy is not None:
        share = None if task is None else task["built"]
        kept = share is not None and share >= budget.accuracy
        found = NO_LABELS if share is None else share_text(share, budget.accuracy, kept=kept)
        figure = Figure("accuracy", "share", budget.accuracy, share)
        yield verdict_on("accuracy", f"at least {share_limit_text(budget.accuracy, 2)}", found, kept, figure)
    if evaluation is not None:
        yield _by_metric(evaluation, budget.accuracy_drop if task is None else None)
    if budget.accuracy_drop is not None and (task is not None or evaluation is None):
        drop = None if task is None else task["drop"]
        kept = drop is not None and round(drop, LOSS_DIGITS) <= budget.accuracy_drop  # older manifests: not rounded
        found = NO_LABELS if drop is None else share_text(drop, budget.accuracy_drop, kept=kept)
        figure = Figure("accuracy_drop", "share", budget.accuracy_drop, drop)
        yield verdict_on("accuracy drop", f"at most {share_limit_text(budget.accuracy_drop, 2)}", found, kept, figure)
    if budget.sqnr_db is not None:
        yield _on_worst_output(manifest["accuracy"], budget.sqnr_db)


def _on_worst_output(accuracy: Mapping[str, Any], least: float) -> Verdict:
    worst = worst_db(accuracy)
    kept = worst is not None and float(worst) >= least
    found = no_signal_text(accuracy) if worst is None else decibel_text(worst)
    if worst is not None and not kept and math.isfinite(float(worst)):
        found = f"{beyond_text(float(worst), least, 1)} dB"
    figure = Figure("sqnr_db", "dB", least, None if worst is None else float(worst))
    return verdict_on("worst output", f"at least {limit_text(least, 1)} dB", found, kept, figure)


def _on_operators(operators: Mapping[str, Any], budget: Budget) -> Iterator[Verdict]:
    """Verdicts on the share of nodes on the accelerator, and on the number of pieces that the graph is cut into."""
    if budget.accelerator_share is not None:
        share = operators.get("accelerator_share")
        least = budget.accelerator_share
        kept = share is not None and share >= least
        place = "" if share is None else f"on {operators['accelerator']}{_evidence(operators)}"
        found = NO_UNITS if share is None else f"{share_text(share, least, kept=kept)} {place}"
        figure = Figure("accelerator_share", "share", budget.accelerator_share, share)
        limit = f"at least {share_limit_text(least, 2)} of the nodes"
        yield verdict_on("on the accelerator", limit, found, kept, figure)
    if budget.partitions is not None:
        count = operators.get("partitions")
        found = NO_UNITS if count is None else f"{count}{_evidence(operators)}"
        kept = count is not None and count <= budget.partitions
        figure = Figure("partitions", "pieces", budget.partitions, count)
        yield verdict_on("partitions", f"at most {budget.partitions}", found, kept, figure)


def judge_further_builds(bundle: Bundle, budget: Budget) -> Iterator[Verdict]:
    """The verdicts of :func:`judge_manifest` on the builds for further devices, each named after its device.

    What the operators are judged by is left out for a build whose check of operators does not record where nodes run.
    """
    for build in bundle.builds[1:]:
        known = stage_record(build.manifest, CheckOperators.name)
        unknown = {key: None for key in ("accelerator_share", "partitions") if known.get(key) is None}
        for verdict in judge_manifest(build, replace(budget, **unknown)):
            yield replace(verdict, budget=f"{verdict.budget} for {build.profile_name}")


def _by_metric(evaluation: Mapping[str, Any], most: float | None) -> Verdict:
    """A verdict on the result of the project's own evaluation function; it is kept if the budget sets no limit."""
    original, found = f"{evaluation['reference']:.5g}", f"{evaluation['built']:.5g}"
    if most is None:
        return verdict_on(evaluation["metric"], f"{original} of the original", found, kept=True)
    figure = Figure("accuracy_drop", "share", most, evaluation["drop"])
    limit = f"at most {share_limit_text(most, 2)} of {original} lost"
    return verdict_on(evaluation["metric"], limit, found, round(evaluation["drop"], LOSS_DIGITS) <= most, figure)


def download_size(bundle: Bundle) -> int:
    """Bytes of the files that the device loads, each compressed with Deflate, as app packages and web servers do."""
    return sum(_deflated(bundle.path / name) for name in bundle.loaded_files)


def _deflated(file: Path) -> int:
    compressor, size = zlib.compressobj(), 0
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            size += len(compressor.compress(piece))
    return size + len(compressor.flush())


def judge_growth(figures: Figures, asked: Budget, earlier: Figures) -> Iterator[Verdict]:
    """Verdicts on size and accuracy compared with an earlier build, by :data:`GROWTH` if ``asked`` sets no limit."""
    budget = asked.over(GROWTH)
    if budget.size_growth is not None:
        before, found = bytes_texts(earlier.size, figures.size)
        limit = f"at most {share_limit_text(budget.size_growth, 1)} above {before}"
        most = earlier.size * (1 + budget.size_growth)
        figure = Figure("size_growth", "bytes", most, figures.size)
        yield verdict_on("size growth", limit, found, figures.size <= most, figure)
    if budget.accuracy_fall is not None and earlier.accuracy is not None:
        least = earlier.accuracy - budget.accuracy_fall
        kept = figures.accuracy is not None and loss(earlier.accuracy, figures.accuracy) <= budget.accuracy_fall
        found = NO_LABELS if figures.accuracy is None else share_text(figures.accuracy, least, kept=kept)
        figure = Figure("accuracy_fall", "share", least, figures.accuracy)
        yield verdict_on(ACCURACY_FALL, f"accuracy of at least {least:.2%}", found, kept, figure)
    elif budget.accuracy_fall is not None:
        limit = f"at most {share_limit_text(budget.accuracy_fall, 2)} below the earlier build's"
        unclear = Outcome.NOT_COMPARED if asked.accuracy_fall is None else Outcome.INCONCLUSIVE
        yield Verdict(ACCURACY_FALL, limit, NEITHER_LABELS if figures.accuracy is None else NO_EARLIER_LABELS, unclear)


def _evidence(operators: Mapping[str, Any]) -> str:
    return f" (evidence: {operators['unit_evidence']})"
