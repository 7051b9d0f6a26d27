"""What a quantizer measured of its candidates, as text: the record's ``curve``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.units import decibel_text

SHARES = ("accuracy", "agreement", "explained", "boxes", "anchors", "characters", "embeddings", "peaks")
"""Metrics whose values are shares; other metrics are a project's own."""
_HEADS = ("candidate", "metric", "value", "float", "lost", "SQNR", "times as fast", "weights")
_SMALL_LOSS = 5e-5
_TEXTS = 2
"""How many of the first columns hold text, and are left-aligned."""


def value_text(metric: str, value: float) -> str:
    """A value of a metric as people read it."""
    return f"{value:.2%}" if metric in SHARES else f"{value:.5g}"


def loss_text(drop: float) -> str:
    """Returns a share in percent: with two decimals, or with two significant digits where two decimals would show 0."""
    return f"{drop:.2%}" if drop == 0 or abs(drop) >= _SMALL_LOSS else f"{100 * drop:.2g}%"


def metric_text(point: Mapping[str, Any]) -> str:
    """Returns the metric that the value is of: with several heads, that of the head that loses the most."""
    head = point.get("head")
    decides = head is not None and point["heads"][head]["decisions"] is not None
    return "agreement" if decides else str(point["metric"])


def lost_text(point: Mapping[str, Any]) -> str:
    """Returns the loss of the metric; with several heads, the loss and the name of the head that loses the most."""
    head = point.get("head")
    return loss_text(point["drop"]) if head is None else f"{loss_text(1 - point['heads'][head]['kept'])} of {head}"


def curve_lines(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the candidates as lines of an aligned table: a header, then a line for each candidate.

    Args:
        points: The record's ``curve``.
    """
    rows = [_HEADS, *map(_row, points)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _row(point: Mapping[str, Any]) -> tuple[str, ...]:
    metric, size = point["metric"], point["weight_bytes"]
    return (
        point["candidate"],
        metric_text(point),
        value_text(metric, point["value"]),
        value_text(metric, point["float_value"]),
        lost_text(point),
        decibel_text(point["sqnr_db"]),
        f"{point['float_latency_ms'] / point['latency_ms']:.2f}" if point["latency_ms"] else "-",
        f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB",
    )


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if place < _TEXTS else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
