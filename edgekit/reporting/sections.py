"""The content of each section of the HTML report as plain data; ``templates`` define how it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgekit.reporting import tables
from edgekit.reporting.app import app_texts
from edgekit.reporting.charts import Axis, curve_chart
from edgekit.reporting.comparison import identity_rows
from edgekit.reporting.judgement import HEADLINES, judge
from edgekit.reporting.layer_errors import EXACT_DB, carried_errors, largest_losses
from edgekit.reporting.page_graph import GraphRecord, page_graph, weights_by_node
from edgekit.reporting.summary import Manifest, latency_text, stage_record, summary_rows
from edgekit.reporting.tiles import tiles
from edgekit.reporting.trade_off_section import trade_off
from edgekit.units import bytes_text, decibel_text, duration_text

MOST_BARS = 12
"""Most layers that are shown by name; the others share one line."""
LEAST_SHARE = 0.002
"""Layers with less than this share of the whole are not shown by name."""
MOST_LOSSES = 10
"""How many layers are named as those that lose the most accuracy."""
MOST_PERCENT = 97.5
"""Runs beyond this percentile are not in the chart: a single interrupted run would set its scale."""
NO_GRAPH = "The bundle holds no graph: an older EdgeKit wrote it. Package the model again to see it."

_OPERATOR_HEAD = ("operator", "nodes", "verdict", "evidence", "unit", "")

Section = dict[str, Any]


def summary(manifest: Manifest, _: GraphRecord | None) -> Section:
    """Whether the bundle ships and why, the four most important figures, then the others."""
    weight, findings = judge(manifest)
    return {
        "weight": weight,
        "headline": HEADLINES[weight],
        "findings": findings,
        "tiles": tiles(manifest),
        "rows": [*summary_rows(manifest), *identity_rows(manifest)],
    }


def candidates(manifest: Manifest, _: GraphRecord | None) -> Section:
    """The candidates that were tried, each with its outcome."""
    return trade_off(manifest)


def accuracy(manifest: Manifest, graph: GraphRecord | None) -> Section:
    """A row for each output; if layers were compared, also where the model loses accuracy."""
    layers = stage_record(manifest, "layers")
    section: Section = {
        "head": tables.ACCURACY_HEAD,
        "rows": tables.accuracy_rows(manifest),
        "execution": tables.execution_text(manifest),
    }
    if graph is None or not layers.get("sqnr_db"):
        return section
    carried = carried_errors(graph, layers["sqnr_db"])
    left_out = f" {layers['left_out']} large tensors were left out." if layers["left_out"] else ""
    section["layers"] = {
        "chart": _errors_by_depth(graph, carried),
        "rows": [
            (loss.node, loss.op_type, _capped(loss.before_db), decibel_text(loss.after_db))
            for loss in largest_losses(graph, carried, MOST_LOSSES)
        ],
        "note": f"Both models executed by {layers['executed_by']}, on one sample. If later nodes reduce a value's "
        f"error, the value counts with the reduced error.{left_out}",
    }
    return section


def _capped(decibels: float) -> str:
    return "exact" if decibels >= EXACT_DB else decibel_text(decibels)


def _errors_by_depth(graph: GraphRecord, carried: Mapping[str, float]) -> str:
    """The chart of values' SQNR from the inputs to the outputs; empty if fewer than two values have a finite SQNR."""
    names = [
        graph["values"][place]["name"] for node in graph["nodes"] for place in node["outputs"] if place is not None
    ]
    points = [(number, min(carried[name], EXACT_DB)) for number, name in enumerate(names, 1) if name in carried]
    finite = [(number, figure) for number, figure in points if math.isfinite(figure)]
    if len(finite) < 2:
        return ""
    across = Axis("nodes, from the inputs to the outputs", 0, len(names) + 1)
    low = min(figure for _, figure in finite)
    return curve_chart(
        "SQNR of the layers against the float model, from the inputs to the outputs",
        {"SQNR": finite},
        across,
        Axis("SQNR in dB", min(low - 3, 0.0) if low < 10 else low - 3, EXACT_DB + 2),
    )


def latency(manifest: Manifest, graph: GraphRecord | None) -> Section:
    """The distribution of the runs' times, then the layers that take the most time."""
    measured = manifest["latency"]
    section: Section = {"text": f"{latency_text(measured)}.", "chart": "", "notes": [], "bars": None}
    curves = {
        f"{label} ({measured[side]['runs']} runs)": _share_by_time(measured[side]["quantiles_ms"])
        for label, side in (("this model", "built"), ("the original", "reference"))
        if "quantiles_ms" in measured[side]
    }
    if curves:
        times = [time for points in curves.values() for time, _ in points]
        across = Axis.around("milliseconds", times, logarithmic=min(times) > 0 and max(times) > 3 * min(times))
        up = Axis("% of runs at most as long", 0, 100)
        section["chart"] = curve_chart("Latency: share of runs by time", curves, across, up)
        left_out = f"The slowest {100 - MOST_PERCENT:g} % of the runs are not in the chart, but the figures count them."
        section["notes"].append(f"{left_out} Executed by {measured['executed_by']}.")
    return {**section, **_latency_of_layers(manifest, graph)}


def _latency_of_layers(manifest: Manifest, graph: GraphRecord | None) -> Section:
    record = stage_record(manifest, "layers")
    if "not_measured" in record:
        return {"layers_note": f"Layers were not measured one by one: {record['not_measured']}."}
    times = record.get("microseconds", {})
    if graph is None or not times:
        return {}
    operators = {node["name"]: node["op"] for node in graph["nodes"]}
    layers = sorted(((name, operators.get(name, ""), time) for name, time in times.items()), key=lambda one: -one[2])
    text = f"Executed by {record['executed_by']}, on the machine that packaged the model; a device can differ."
    if times.keys() - operators.keys():
        text += " Layers without an operator come from operators that the runtime expands, such as HardSwish."
    return {"bars": bars("time", layers, duration_text), "layers_note": text}


def _share_by_time(quantiles: Sequence[float]) -> list[tuple[float, float]]:
    """Times up to :data:`MOST_PERCENT`, each with the percentage of the runs that took no longer."""
    step = 100 / (len(quantiles) - 1)
    points = [(time, number * step) for number, time in enumerate(quantiles)]
    return [point for point in points if point[1] <= MOST_PERCENT]


def size_by_layer(_: Manifest, graph: GraphRecord | None) -> Section:
    """Bars of the layers with the most weights."""
    layers = [] if graph is None else weights_by_node(graph)
    if not layers:
        return {"note": "No layer has weights." if graph is not None else NO_GRAPH}
    total = bytes_text(sum(layer.bytes for layer in layers))
    return {
        "bars": bars("weights", [(layer.node, layer.op_type, layer.bytes) for layer in layers], bytes_text),
        "note": f"{total} of weights, as they stand in the graph that was built; the device's format can differ.",
    }


def graph_viewer(manifest: Manifest, graph: GraphRecord | None) -> Section:
    """The graph's data for ``graph.js``."""
    if graph is None:
        return {"note": NO_GRAPH}
    name = f"{manifest['name']} for {manifest['target']['profile']}"
    return {"name": name, "data": page_graph(graph, manifest)}


def operators(manifest: Manifest, _: GraphRecord | None) -> Section:
    """A row for each group of nodes with the same verdict."""
    return {"head": _OPERATOR_HEAD, "rows": list(_operator_rows(manifest))}


def _operator_rows(manifest: Manifest) -> Iterator[Sequence[str]]:
    for group in stage_record(manifest, "check operators").get("verdicts", ()):
        count = str(len(group["nodes"]))
        yield group["op_type"], count, group["support"], group["evidence"], group["unit"], group["detail"]


def features(manifest: Manifest, _: GraphRecord | None) -> Section:
    """Inputs and outputs, how an input is prepared, and the names of the classes."""
    declared = manifest["preprocessing"]
    return {
        "head": tables.FEATURE_HEAD,
        "rows": list(tables.feature_rows(manifest)),
        "app": app_texts(manifest),
        "preparation": [] if declared is None else [(key, _declared_text(value)) for key, value in declared.items()],
        "labels": manifest["labels"] or [],
    }


def _declared_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_declared_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def stages(manifest: Manifest, _: GraphRecord | None) -> Section:
    """The stages that made the bundle, with their times."""
    return {"head": tables.STAGE_HEAD, "rows": list(tables.stage_rows(manifest))}


def files(manifest: Manifest, _: GraphRecord | None) -> Section:
    """The files in the bundle."""
    rows = list(tables.file_rows(manifest))
    return {"head": ("file", "size", "SHA-256"), "rows": rows, "count": len(rows)}


def bars(title: str, layers: Sequence[tuple[str, str, float]], render: Callable[[Any], str]) -> Section:
    """Bars of the layers with the largest figures.

    Args:
        title: What the figures are.
        layers: Name, operator and figure of at least one layer, largest first.
        render: Makes a text of a figure.
    """
    total = sum(figure for *_, figure in layers)
    named = [layer for layer in layers[:MOST_BARS] if layer[2] >= LEAST_SHARE * total]
    most = named[0][2] if named else total
    rows = [
        {"name": name, "operator": operator, "text": f"{render(figure)} ({figure / (total or 1):.1%})"}
        | {"width": f"{figure / (most or 1):.1%}"}
        for name, operator, figure in named
    ]
    rest = layers[len(named) :]
    if rest:
        figure = sum(layer[2] for layer in rest)
        text = f"{render(figure)} ({figure / (total or 1):.1%})"
        rows.append({"name": f"{len(rest)} smaller layers", "operator": "", "text": text, "width": ""})
    return {"title": title, "rows": rows}
