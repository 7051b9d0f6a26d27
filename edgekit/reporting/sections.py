"""The sections of the HTML report, each for one bundle."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any

from edgekit.reporting import tables
from edgekit.reporting.charts import Axis, curve_chart, point_chart
from edgekit.reporting.judgement import HEADLINES, judge
from edgekit.reporting.page_graph import GraphRecord, page_graph, weights_by_node
from edgekit.reporting.summary import (
    Manifest,
    bytes_text,
    decibel_text,
    duration_text,
    latency_text,
    stage_record,
    summary_rows,
)

MOST_BARS = 20
"""Layers that are shown by name; the others stand in one line."""
LEAST_SHARE = 0.002
"""So do those with less than this share of the whole."""

_OPERATOR_HEAD = ("operator", "nodes", "verdict", "evidence", "unit", "")
_CURVE_HEAD = ("", "candidate", "weights", "integer layers", "quality", "float", "SQNR", "latency")


def summary(manifest: Manifest) -> str:
    """Whether it ships and why, then the figures."""
    weight, findings = judge(manifest)
    reasons = "".join(f'<li class="{finding.weight}">{escape(finding.text)}</li>' for finding in findings)
    return (
        f'<div class="verdict {weight}"><p>{HEADLINES[weight]}</p><ul>{reasons}</ul></div>\n'
        f"{table((), summary_rows(manifest))}"
    )


def size_by_layer(graph: GraphRecord | None) -> str:
    """Bars of the layers with the most weights."""
    layers = [] if graph is None else weights_by_node(graph)
    if not layers:
        return note("No layer has weights." if graph is not None else NO_GRAPH)
    bars = bar_table("weights", [(layer.node, layer.op_type, layer.bytes) for layer in layers], bytes_text)
    total = bytes_text(sum(layer.bytes for layer in layers))
    return bars + note(
        f"{total} of weights, as they stand in the graph that was built; the device's format can differ."
    )


def latency(manifest: Manifest, graph: GraphRecord | None) -> str:
    """How the times of the runs are distributed, then the layers that take most of it."""
    return "\n".join([_latency_of_runs(manifest), _latency_of_layers(manifest, graph)])


def _latency_of_layers(manifest: Manifest, graph: GraphRecord | None) -> str:
    record = stage_record(manifest, "layers")
    if "not_measured" in record:
        return note(f"Layers were not measured one by one: {record['not_measured']}.")
    times = record.get("microseconds", {})
    if graph is None or not times:
        return ""
    operators = {node["name"]: node["op"] for node in graph["nodes"]}
    layers = sorted(((name, operators.get(name, ""), time) for name, time in times.items()), key=lambda one: -one[2])
    text = f"Executed by {record['executed_by']}, on the machine that packaged the model; a device can differ."
    if times.keys() - operators.keys():
        text += " Layers without an operator are what it makes of operators such as HardSwish, which it expands."
    return f"<h3>Time by layer</h3>\n{bar_table('time', layers, duration_text)}{note(text)}"


def _latency_of_runs(manifest: Manifest) -> str:
    measured = manifest["latency"]
    curves = {
        f"{label} ({measured[side]['runs']} runs)": _share_by_time(measured[side]["quantiles_ms"])
        for label, side in (("this model", "built"), ("the original", "reference"))
        if "quantiles_ms" in measured[side]
    }
    text = f"<p>{escape(latency_text(measured))}.</p>"
    if not curves:
        return text
    times = [time for points in curves.values() for time, _ in points]
    across = Axis.around("milliseconds", times, logarithmic=min(times) > 0 and max(times) > 3 * min(times))
    chart = curve_chart("Latency: share of runs by time", curves, across, Axis("% of runs at most as long", 0, 100))
    left_out = f"The slowest {100 - MOST_PERCENT:g} % of the runs are left out of the chart, not of the figures."
    return "\n".join([text, chart, note(f"{left_out} Executed by {measured['executed_by']}.")])


def _share_by_time(quantiles: Sequence[float]) -> list[tuple[float, float]]:
    """Times, and the percentage of the runs that took no longer."""
    step = 100 / (len(quantiles) - 1)
    points = [(time, number * step) for number, time in enumerate(quantiles)]
    return [point for point in points if point[1] <= MOST_PERCENT]


MOST_PERCENT = 97.5
"""Beyond it a single interrupted run would set the chart's scale."""


def accuracy(manifest: Manifest) -> str:
    """A line an output, then the layers that are farthest from the float model, where they were compared."""
    parts = [
        table(tables.ACCURACY_HEAD, tables.accuracy_rows(manifest)),
        f"<p>{escape(tables.execution_text(manifest))}</p>",
    ]
    layers = stage_record(manifest, "layers")
    worst = sorted(layers.get("sqnr_db", {}).items(), key=lambda layer: float(layer[1]))[:MOST_BARS]
    if worst:
        parts.append("<h3>Layers with the largest error</h3>")
        parts.append(table(("tensor", "SQNR"), ((name, decibel_text(value)) for name, value in worst)))
        left_out = f" {layers['left_out']} large tensors were left out." if layers["left_out"] else ""
        parts.append(note(f"Both models executed by {layers['executed_by']}, on one sample.{left_out}"))
    return "\n".join(parts)


def trade_off(manifest: Manifest) -> str:
    """What the quantizer tried."""
    record = stage_record(manifest, "quantize")
    trials = record.get("curve", ())
    if not trials:
        return note("Nothing was tried: the model was not quantized, or by a scheme that leaves no choice.")
    rows = [
        (
            str(number),
            trial["candidate"] + (" (chosen)" if trial["candidate"] == record.get("chosen") else ""),
            bytes_text(trial["weight_bytes"]),
            str(trial["integer_layers"]),
            f"{trial['metric']} {trial['value']:.4g}",
            f"{trial['float_value']:.4g}",
            decibel_text(trial["sqnr_db"]),
            f"{trial['latency_ms']:.3g} ms" if trial.get("latency_ms") else "",
        )
        for number, trial in enumerate(trials, 1)
    ]
    if all(trial.get("latency_ms") for trial in trials):
        title, figures = "latency in ms", [trial["latency_ms"] for trial in trials]
    else:
        sizes = [trial["weight_bytes"] for trial in trials]
        unit, scale = ("kB", 1e-3) if max(sizes) < 1e6 else ("MB", 1e-6)
        title, figures = f"weights in {unit}", [size * scale for size in sizes]
    points = [(figure, float(trial["sqnr_db"])) for figure, trial in zip(figures, trials, strict=True)]
    chosen = [place for place, trial in enumerate(trials) if trial["candidate"] == record.get("chosen")]
    if not all(math.isfinite(quality) for _, quality in points):
        return table(_CURVE_HEAD, rows)
    across, up = Axis.around(title, figures), Axis.around("SQNR in dB", [quality for _, quality in points])
    label = f"Quantization trade-off: SQNR by {title}"
    return point_chart(label, points, across, up, chosen[0] if chosen else None) + table(_CURVE_HEAD, rows)


def operators(manifest: Manifest) -> str:
    """A line for each group of nodes with the same verdict."""
    return table(_OPERATOR_HEAD, _operator_rows(manifest))


def graph_viewer(manifest: Manifest, graph: GraphRecord | None) -> str:
    """What ``graph.js`` brings to life."""
    if graph is None:
        return note(NO_GRAPH)
    data = json.dumps(page_graph(graph, manifest), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    name = escape(f"{manifest['name']} for {manifest['target']['profile']}")
    return (
        '<div class="graph">\n<div class="tools">'
        '<label>Search <input type="search" placeholder="operator, node or tensor"></label>'
        '<span class="count" role="status"></span>'
        "<label>Colour by <select></select></label>"
        '<span role="group" aria-label="Zoom"><button type="button" data-zoom="in" aria-label="Zoom in">+</button> '
        '<button type="button" data-zoom="out" aria-label="Zoom out">&minus;</button> '
        '<button type="button" data-zoom="all">Fit</button></span></div>\n'
        '<ul class="legend" aria-label="Colours"></ul>\n<div class="panes">'
        f'<canvas tabindex="0" role="application" aria-label="Graph of {name}: arrow keys move, + and - zoom, 0 fits; '
        'the list of nodes tells the same"></canvas>\n'
        f'<div class="side"><ul role="listbox" tabindex="0" aria-label="Nodes of {name}"></ul>'
        '<div class="details" role="region" tabindex="0" aria-live="polite" aria-label="The selected node">'
        "<p>Select a node, in the graph or in the list, to see its shapes, attributes and evidence.</p></div>"
        "</div></div>\n"
        f'<script type="application/json">{data.replace("<", _ESCAPED_LESS)}</script>\n</div>'
    )


_ESCAPED_LESS = "\\u003c"
"""How JSON can write what would end the script element."""

NO_GRAPH = "The bundle holds no graph: an older EdgeKit wrote it. Package the model again to see it."


def features(manifest: Manifest) -> str:
    """Inputs and outputs."""
    return table(tables.FEATURE_HEAD, tables.feature_rows(manifest))


def stages(manifest: Manifest) -> str:
    """How the bundle came about."""
    return table(tables.STAGE_HEAD, tables.stage_rows(manifest))


def files(manifest: Manifest) -> str:
    """What is in the bundle."""
    return table(("file", "size", "SHA-256"), tables.file_rows(manifest))


def bar_table(title: str, layers: Sequence[tuple[str, str, float]], render: Callable[[Any], str]) -> str:
    """Bars of the layers with the most of something.

    Args:
        title: What they have most of.
        layers: Name, operator and figure of at least one, largest first.
        render: Makes a text of a figure.
    """
    total = sum(figure for *_, figure in layers)
    named = [layer for layer in layers[:MOST_BARS] if layer[2] >= LEAST_SHARE * total]
    rows = list(named)
    if len(layers) > len(named):
        rows.append((f"{len(layers) - len(named)} smaller layers", "", sum(layer[2] for layer in layers[len(named) :])))
    most = max(figure for *_, figure in rows) or 1
    lines = [
        f'<tr><th scope="row">{escape(name)} <small>{escape(operator)}</small></th>'
        f"<td>{render(figure)} ({figure / (total or 1):.1%})</td>"
        f'<td><span class="bar" style="width:{figure / most:.1%}"></span></td></tr>'
        for name, operator, figure in rows
    ]
    head = f'<thead><tr><th scope="col">layer</th><th scope="col">{title}</th><td></td></tr></thead>'
    return f'<table class="bars">{head}<tbody>{"".join(lines)}</tbody></table>\n'


def note(text: str) -> str:
    """A remark."""
    return f'<p class="note">{escape(text)}</p>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; without a head, the first cell of each row is what the row is about."""
    opening, closing = ("<td>", "</td>") if head else ('<th scope="row">', "</th>")
    kind = "" if head else ' class="facts"'
    lines = [f'<div class="scroll" tabindex="0"><table{kind}>']
    if head:
        lines.append("<thead><tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr></thead>")
    lines.append("<tbody>")
    for first, *others in rows:
        cells = [f"{opening}{escape(first)}{closing}", *(f"<td>{escape(cell)}</td>" for cell in others)]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _operator_rows(manifest: Manifest) -> Iterator[Sequence[str]]:
    for group in stage_record(manifest, "check operators").get("verdicts", ()):
        count = str(len(group["nodes"]))
        yield group["op_type"], count, group["support"], group["evidence"], group["unit"], group["detail"]
