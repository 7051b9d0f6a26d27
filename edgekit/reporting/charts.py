"""Charts as SVG, with colors from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 68, 20, 14, 54

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """The title, range and scale of an axis."""

    title: str
    low: float
    high: float
    logarithmic: bool = False

    @classmethod
    def around(cls, title: str, figures: Sequence[float], *, logarithmic: bool = False) -> Axis:
        """An axis whose range includes all figures, with a margin.

        Args:
            title: What the axis shows.
            figures: At least one figure; above 0 if the axis is logarithmic.
            logarithmic: Whether equal ratios are equally far apart.
        """
        low, high = min(figures), max(figures)
        if logarithmic:
            return cls(title, low / 1.15, high * 1.15, True)
        margin = (high - low) * 0.12 or abs(high) * 0.1 or 1.0
        return cls(title, low - margin, high + margin)

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 at the low end to 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round figures along the axis."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low < 200 else (1,)
            marks = [factor * 10.0**decade for decade in decades for factor in factors]
            inside = [mark for mark in marks if self.low <= mark <= self.high]
            if len(inside) >= 2:
                return inside
        rough = (self.high - self.low) / 5
        decade = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= rough)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def curve_chart(title: str, curves: Mapping[str, Points], across: Axis, up: Axis) -> Markup:
    """A chart with lines, the first in the accent color; below it a legend, if there are several lines."""
    parts = [_frame(across, up)]
    for number, points in enumerate(curves.values(), 1):
        line = " ".join(f"{_x(across, x):.1f},{_y(up, y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line series{number}" points="{line}"/>')
    return _figure(title, parts, tuple(curves) if len(curves) > 1 else ())


@dataclass(frozen=True)
class Dot:
    """A candidate in a chart."""

    label: str
    across: float
    up: float
    style: str
    """The dot's class in the style sheet."""


def dot_chart(title: str, dots: Sequence[Dot], across: Axis, up: Axis, budget: float | None) -> Markup:
    """A chart with labeled dots, the Pareto frontier, and the budget as a line.

    Args:
        title: What the chart shows, for people who cannot see it.
        dots: The candidates; later ones are drawn on top, and one below the range of ``up`` at its lower end.
        across: The horizontal axis, on which less is better.
        up: The vertical axis, on which more is better.
        budget: The least value that is allowed on ``up``; None for no line.
    """
    parts = [_frame(across, up)]
    if budget is not None and up.low < budget < up.high:
        height = _y(up, budget)
        parts.append(
            f'<line class="budget" x1="{LEFT}" y1="{height:.1f}" x2="{WIDTH - RIGHT}" y2="{height:.1f}"/>'
            f'<text class="budget" x="{WIDTH - RIGHT - 4}" y="{height + 15:.1f}">budget</text>'
        )
    places = [(_x(across, dot.across), _y(up, max(dot.up, up.low))) for dot in dots]
    best = frontier([(dot.across, dot.up) for dot in dots])
    line = " ".join(f"{places[number][0]:.1f},{places[number][1]:.1f}" for number in best)
    parts.append(f'<polyline class="frontier" points="{line}"/>')
    for dot, (left, top) in zip(dots, places, strict=True):
        parts.append(
            f'<circle class="dot {dot.style}" cx="{left:.1f}" cy="{top:.1f}" r="11"/>'
            f'<text class="dot {dot.style}" x="{left:.1f}" y="{top + 4:.1f}">{escape(dot.label)}</text>'
        )
    return _figure(title, parts, ())


def frontier(points: Points) -> list[int]:
    """The indexes of the Pareto-optimal points (least across, most up), in ascending order of both coordinates."""
    best: list[int] = []
    for number in sorted(range(len(points)), key=lambda one: (points[one][0], -points[one][1])):
        if not best or points[number][1] > points[best[-1]][1]:
            best.append(number)
    return best


def _figure(title: str, parts: Sequence[str], series: Sequence[str]) -> Markup:
    legend = "".join(
        f'<li><span class="swatch series{number}"></span>{escape(name)}</li>' for number, name in enumerate(series, 1)
    )
    caption = f'<figcaption><ul class="legend">{legend}</ul></figcaption>' if series else ""
    return Markup(
        f'<figure><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>{caption}</figure>"
    )


def _frame(across: Axis, up: Axis) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = [
        f'<line class="grid" x1="{_x(across, tick):.1f}" y1="{TOP}" x2="{_x(across, tick):.1f}" y2="{bottom}"/>'
        f'<text class="tick below" x="{_x(across, tick):.1f}" y="{bottom + 20}">{tick:.4g}</text>'
        for tick in across.ticks()
    ]
    lines += [
        f'<line class="grid" x1="{LEFT}" y1="{_y(up, tick):.1f}" x2="{right}" y2="{_y(up, tick):.1f}"/>'
        f'<text class="tick beside" x="{LEFT - 6}" y="{_y(up, tick) + 4:.1f}">{tick:.4g}</text>'
        for tick in up.ticks()
    ]
    middle = (TOP + bottom) / 2
    return "".join(lines) + (
        f'<text class="title" x="{(LEFT + right) / 2}" y="{HEIGHT - 6}">{escape(across.title)}</text>'
        f'<text class="title" transform="rotate(-90 18 {middle})" x="18" y="{middle}">{escape(up.title)}</text>'
    )


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)
