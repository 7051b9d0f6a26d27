"""The verdicts on a model's nodes as findings that code hosts show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from edgekit.errors import EdgeKitError
from edgekit.operators.sarif import Finding, Level, Rule
from edgekit.operators.support import Fit, OperatorSupport
from edgekit.target import NodeVerdict, Support


def operator_findings(
    model: Path, profile: str, verdicts: Iterable[NodeVerdict], support: OperatorSupport
) -> Iterator[Finding]:
    """Yields a finding for each node that is not fully supported, and one for the model if its fit is poor."""
    rules = {
        Support.UNSUPPORTED: Rule("unsupported-operator", "The target cannot take the node.", Level.ERROR),
        Support.FALLS_BACK: Rule("falls-back", "The node runs on a slower unit of the device.", Level.WARNING),
        Support.UNKNOWN: Rule("unknown-support", "It is not known whether the target takes the node.", Level.NOTE),
    }
    for verdict in verdicts:
        if verdict.support in rules:
            reason = "; ".join(filter(None, (verdict.detail, verdict.hint)))
            message = f"{verdict.op_type} {verdict.node!r} on {profile}: {verdict.support}"
            facts = {"operator": verdict.op_type, "evidence": str(verdict.evidence), "unit": verdict.unit}
            yield Finding(
                rules[verdict.support], f"{message} ({reason})" if reason else message, model, verdict.node, facts
            )
    if support.fit is Fit.POOR:
        rule = Rule(
            "poor-fit",
            "The accelerator executes too few of the nodes, or the model is split into too many parts.",
            Level.WARNING,
        )
        yield Finding(rule, f"{profile}: {support}", model)


def unchecked(model: Path, error: EdgeKitError) -> Finding:
    """That a model could not be checked, and why."""
    rule = Rule("not-checked", "The model could not be checked.", Level.ERROR)
    return Finding(rule, str(error), model)
