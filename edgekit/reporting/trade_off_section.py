"""The candidates of a bundle: quality, time and size of each, its outcome and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from edgekit.comparison.acceptance.trade_off import loss_text, lost_text, metric_text, value_text
from edgekit.reporting.charts import Axis, Dot, dot_chart
from edgekit.reporting.summary import Manifest, stage_record
from edgekit.units import bytes_text, decibel_text, time_text

HEAD = ("", "candidate", "outcome", "quality", "lost", "SQNR", "time", "weights", "")
FLOAT_LABEL = "F"
MOST_BUDGETS = 4
"""A candidate that loses more than this many times the budget is drawn at the chart's lower edge, so that it does not
set the scale for the other candidates."""
LEAST_SPAN = 1e-4
"""Least range of the quality axis without a budget, as a share, so that the axis does not only show rounding errors."""
LOGARITHMIC_FROM = 3
"""If the ratio of the largest to the least figure is above this, an axis is logarithmic."""

COMPARED = "compared"
"""The outcome of a form that was only measured for comparison, and cannot ship."""

_STYLES = {"ships": "chosen", "refused": "refused", "failed": "refused", "not needed": "spare", COMPARED: "spare"}


def trade_off(manifest: Manifest) -> dict[str, Any]:
    """Charts, one row per candidate, and notes about the charts."""
    candidates = manifest.get("candidates", ())
    record = stage_record(manifest, "quantize")
    trials = {trial["candidate"]: trial for trial in record.get("curve", ())}
    merged = [{**trials.get(candidate["candidate"], {}), **candidate} for candidate in candidates]
    if "unrestricted" in record:
        merged.append(_unrestricted(record["unrestricted"]))
    charts = [
        chart
        for chart in (
            _chart(merged, record.get("max_drop"), "time, the float model's in the same round = 1", _time),
            _chart(merged, record.get("max_drop"), "weights, the float model's = 1", _size),
        )
        if chart is not None
    ]
    rows = [
        {"style": _STYLES[candidate["fate"]], "cells": _cells(number, candidate)}
        for number, candidate in enumerate(merged, 1)
    ]
    return {"charts": charts, "head": HEAD, "rows": rows, "notes": _notes(merged, charts, record.get("max_drop"))}


def _unrestricted(trial: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen candidate without the larger scales that prevent saturation, judged by the worst of its settings."""
    reason = "for comparison: sums of products may saturate on processors without VNNI"
    settings: Mapping[str, float] = trial.get("settings", {})
    if settings:
        worst = min(settings, key=lambda name: settings[name])
        reason += f"; {value_text(trial['metric'], settings[worst])} with {worst}"
    return {**trial, "fate": COMPARED, "reason": reason}


def _cells(number: int, candidate: Mapping[str, Any]) -> tuple[str, ...]:
    metric = candidate.get("metric")
    time = _time(candidate)
    return (
        str(number),
        candidate["candidate"],
        candidate["fate"],
        f"{metric_text(candidate)} {value_text(metric, candidate['value'])}" if metric and "value" in candidate else "",
        lost_text(candidate) if "drop" in candidate else "",
        decibel_text(candidate["sqnr_db"]) if candidate.get("sqnr_db") is not None else "",
        f"{time_text(candidate['latency_ms'])}, ×{time:.2f}" if time is not None else "",
        bytes_text(candidate["weight_bytes"]) if "weight_bytes" in candidate else "",
        candidate["reason"],
    )


def _time(candidate: Mapping[str, Any]) -> float | None:
    """The candidate's time over the float model's, which was measured in turns with it; None if it was not timed."""
    own, floating = candidate.get("latency_ms"), candidate.get("float_latency_ms")
    return float(own) / float(floating) if own and floating else None


def _size(candidate: Mapping[str, Any]) -> float | None:
    own, floating = candidate.get("weight_bytes"), candidate.get("float_weight_bytes")
    return float(own) / float(floating) if own and floating else None


def _chart(candidates: Sequence[Mapping[str, Any]], budget: float | None, title: str, figure: Any) -> Markup | None:
    """The chart of quality over a figure that is 1 for the float model; None if no candidate has the figure."""
    measured = [
        (number, candidate, figure(candidate), 1 - float(candidate["drop"]))
        for number, candidate in enumerate(candidates, 1)
        if "drop" in candidate and figure(candidate) is not None
    ]
    if not measured:
        return None
    kept = [quality for *_, quality in measured]
    low = min(kept) if budget is None else max(min(kept), 1 - MOST_BUDGETS * budget)
    up = Axis.around(
        f"% of {measured[0][1]['metric']} kept", [100 * low, 100 * max(*kept, 1.0), 100 * (1 - (budget or LEAST_SPAN))]
    )
    across = [place for _, _, place, _ in measured] + [1.0]
    axis = Axis.around(title, across, logarithmic=max(across) > LOGARITHMIC_FROM * min(across))
    dots = [Dot(FLOAT_LABEL, 1.0, 100.0, "float")]
    ordered = sorted(measured, key=lambda one: one[1]["fate"] == "ships")
    dots += [Dot(str(number), place, 100 * quality, _STYLES[one["fate"]]) for number, one, place, quality in ordered]
    return dot_chart(f"Quality by {title}", dots, axis, up, None if budget is None else 100 * (1 - budget))


def _notes(candidates: Sequence[Mapping[str, Any]], charts: Sequence[Markup], budget: float | None) -> list[str]:
    if not candidates:
        return ["No candidates were tried: the model was not quantized, or the scheme has only one form."]
    if not charts:
        return []
    notes = [
        (
            f"{FLOAT_LABEL} is the float model; the line joins the candidates that no other one beats in both "
            "quality and time or size."
        )
    ]
    if budget is not None:
        notes.append(f"The budget allows a loss of {loss_text(budget)}.")
        if any(candidate.get("head") is not None for candidate in candidates):
            notes.append(
                "An output that decides, such as by its classes, has a budget of its own: its loss is drawn as the "
                "same share of the chart's budget."
            )
        if any(candidate.get("drop", 0) > MOST_BUDGETS * budget for candidate in candidates):
            notes.append(f"Candidates that lose more than {MOST_BUDGETS} times the budget are drawn at the lower edge.")
    return notes
