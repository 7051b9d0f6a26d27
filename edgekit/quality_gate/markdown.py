"""The verdicts as Markdown: what GitHub shows as a job's summary."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.reporting.markdown import escaped_markdown


def markdown_summary(judged: Sequence[Judged], machine: Machine) -> str:
    """The page's text: what failed first, then everything."""
    failed = [one.name for one in judged if not one.passed]
    count = f"{len(judged)} bundle{'s' if len(judged) != 1 else ''}"
    head = f"{len(failed)} of {count} failed" if failed else f"{count} passed"
    doubtful = [f"{one.name}: {verdict.budget}" for one in judged for verdict in one.doubtful]
    parts = [
        f"## {'❌' if failed else '✅'} EdgeKit gate: {head}",
        f"⚠️ Not clear: {', '.join(map(_escaped, doubtful))}" if doubtful else "",
        *map(_section, judged),
        f"Latency is the ratio of two models measured in turns on {_escaped(str(machine))}." * _timed(judged),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _timed(judged: Sequence[Judged]) -> bool:
    return any(one.ratios for one in judged)


def _section(judged: Judged) -> str:
    sign = "❌" if not judged.passed else "⚠️" if judged.doubtful else "✅"
    title = f"### {sign} {_escaped(judged.name)}"
    if judged.error is not None:
        return f"{title}\n\n" + "\n".join(f"    {line}" for line in str(judged.error).splitlines())
    if not judged.verdicts:
        return f"{title}\n\nNo budget is set."
    rows = [("", "budget", "limit", "found"), ("---",) * 4]
    rows += [(_sign(judged, verdict), verdict.budget, verdict.limit, verdict.found) for verdict in judged.verdicts]
    return f"{title}\n\n" + "\n".join("| " + " | ".join(map(_escaped, row)) + " |" for row in rows)


def _sign(judged: Judged, verdict: Verdict) -> str:
    if judged.fails(verdict):
        return "❌"
    return {Outcome.INCONCLUSIVE: "⚠️", Outcome.NOT_COMPARED: "⚪"}.get(verdict.outcome, "✅")


def _escaped(text: str) -> str:
    return escaped_markdown(text).replace("_", "\\_")
