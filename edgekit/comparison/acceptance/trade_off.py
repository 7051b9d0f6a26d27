"""What a quantizer measured of its candidates, as text: the record's ``curve``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.units import decibel_text

SHARES = ("accuracy", "agreement", "explained", "boxes", "anchors", "characters", "embeddings")
"""Metrics whose values are shares; others are of the project's own."""
_HEADS = ("candidate", "metric", "value", "float", "lost", "SQNR", "times as fast", "weights")
_SMALL_LOSS = 5e-5
_TEXTS = 2
"""How many columns hold text, which stands at the left."""


def value_text(metric: str, value: float) -> str:
    """A value of a metric as people read it."""
    return f"{value:.2%}" if metric in SHARES else f"{value:.5g}"


def loss_text(drop: float) -> str:
    """A share, say of what was lost, in percent: two decimals, and two digits where those would hide that it is one."""
    return f"{drop:.2%}" if drop == 0 or abs(drop) >= _SMALL_LOSS else f"{100 * drop:.2g}%"


def lost_text(point: Mapping[str, Any]) -> str:
    """What is lost of the metric, or of several heads by the one that loses the most, which is named then."""
    head = point.get("head")
    return loss_text(point["drop"]) if head is None else f"{loss_text(1 - point['heads'][head]['kept'])} of {head}"


def curve_lines(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """The candidates, aligned: a line each under a line of heads.

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
        metric,
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
