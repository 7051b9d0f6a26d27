"""What the page's graph shows: places, colours and details of every node, as the page's script takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgekit.reporting.layout import Edge, layered_layout
from edgekit.reporting.precision import node_precisions
from edgekit.reporting.summary import Manifest, bytes_text, decibel_text, duration_text, stage_record
from edgekit.reporting.tables import shape_text

GraphRecord = Mapping[str, Any]

INPUT, OUTPUT = "Input", "Output"
"""What stands in the place of an operator where the graph begins and ends."""

SUPPORT_COLOURS = {
    "supported": "green",
    "decomposed": "blue",
    "falls back": "amber",
    "unsupported": "red",
    "unknown": "grey",
}
PRECISION_COLOURS = {
    "int8": "green",
    "int8 weights": "blue",
    "float16": "amber",
    "float32": "violet",
    "no arithmetic": "grey",
}
ERROR_STEPS = (
    (10.0, "under 10 dB", "step5"),
    (20.0, "10 to 20 dB", "step4"),
    (30.0, "20 to 30 dB", "step3"),
    (40.0, "30 to 40 dB", "step2"),
    (float("inf"), "40 dB and more", "step1"),
)
TIME_STEPS = (
    (0.001, "under 0.1 %", "step1"),
    (0.01, "0.1 to 1 %", "step2"),
    (0.03, "1 to 3 %", "step3"),
    (0.1, "3 to 10 %", "step4"),
    (float("inf"), "10 % and more", "step5"),
)


@dataclass(frozen=True)
class Weights:
    """How many bytes of weights a node has."""

    node: str
    op_type: str
    bytes: int


def page_graph(graph: GraphRecord, manifest: Manifest) -> dict[str, Any]:
    """The plain data that ``graph.js`` draws."""
    nodes = _nodes(graph, manifest)
    edges = list(_edges(graph))
    layout = layered_layout(len(nodes), edges)
    for node, (x, y) in zip(nodes, layout.nodes, strict=True):
        node["x"], node["y"] = x, y
    modes = [mode for mode in _modes(nodes) if mode["categories"]]
    for node in nodes:
        for measured in ("error", "time"):
            node.pop(measured, None)
    return {
        "nodes": nodes,
        "edges": [[*edge, *(axis for point in layout.routes.get(edge, ()) for axis in point)] for edge in edges],
        "modes": modes,
    }


def weights_by_node(graph: GraphRecord) -> list[Weights]:
    """Bytes of the weights that each node reads, largest first.

    Nodes that read nothing but weights, as those that dequantize them, pass theirs on to who reads their result. A
    weight that several nodes read counts for the first.
    """
    return [
        Weights(node["name"], node["op"], count)
        for node, count in sorted(zip(graph["nodes"], _weight_bytes(graph), strict=True), key=lambda pair: -pair[1])
        if count
    ]


def _weight_bytes(graph: GraphRecord) -> list[int]:
    left = {place: value["bytes"] for place, value in enumerate(graph["values"]) if "bytes" in value}
    constant = set(left)
    holders = {node["within"] for node in graph["nodes"] if "within" in node}  # they read more than their inputs
    counts = []
    for number, node in enumerate(graph["nodes"]):
        inputs = [place for place in node["inputs"] if place is not None]
        count = sum(left.pop(place, 0) for place in inputs)
        outputs = [place for place in node["outputs"] if place is not None]
        if inputs and outputs and number not in holders and constant.issuperset(inputs):
            constant.update(outputs)
            left[outputs[0]] = count
            count = 0
        counts.append(count)
    return counts


def _nodes(graph: GraphRecord, manifest: Manifest) -> list[dict[str, Any]]:
    """The graph's nodes, then its inputs, then its outputs."""
    values = graph["values"]
    verdicts = _verdicts(manifest)
    precisions = node_precisions(graph, manifest)
    layers = stage_record(manifest, "layers")
    errors, times = layers.get("sqnr_db", {}), layers.get("microseconds", {})
    total = sum(times.values())
    found = []
    for node, weights, precision in zip(graph["nodes"], _weight_bytes(graph), precisions, strict=True):
        name, outputs = node["name"], [values[place] for place in node["outputs"] if place is not None]
        shown: dict[str, Any] = {
            "name": name,
            "op": node["op"],
            "inputs": [_value(values[place]) for place in node["inputs"] if place is not None],
            "outputs": list(map(_value, outputs)),
            "attributes": node.get("attributes", {}),
            "precision": precision,
            "facts": {},
        }
        if "within" in node:
            shown["facts"]["inside"] = graph["nodes"][node["within"]]["name"]
        if weights:
            shown["facts"]["weights"] = bytes_text(weights)
        if (verdict := verdicts.get(name)) is not None:
            shown["verdict"] = verdict
        error = min((float(errors[value["name"]]) for value in outputs if value["name"] in errors), default=None)
        if error is not None:
            shown["error"] = error
            shown["facts"]["error"] = f"SQNR {decibel_text(error)} against the float model"
        if name in times and total:
            shown["time"] = times[name] / total
            share = f"{times[name] / total:.1%} of all nodes (in the reference on the CPU, not on the device)"
            shown["facts"]["time"] = f"{duration_text(times[name])}, {share}"
        found.append(shown)
    found += [_border(INPUT, values[place]) for place in graph["inputs"]]
    found += [_border(OUTPUT, values[place]) for place in graph["outputs"]]
    return found


def _border(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    side = "outputs" if kind == INPUT else "inputs"
    return {"name": value["name"], "op": kind, "inputs": [], "outputs": [], "attributes": {}, "facts": {}} | {
        side: [_value(value)]
    }


def _value(value: Mapping[str, Any]) -> list[str]:
    shape = "unknown rank" if value["shape"] is None else shape_text(value["shape"])
    size = f", {bytes_text(value['bytes'])}" if "bytes" in value else ""
    return [value["name"], f"{value['dtype']} {shape}{size}"]


def _verdicts(manifest: Manifest) -> dict[str, dict[str, str]]:
    keys = ("support", "evidence", "unit", "detail")
    return {
        name: {key: group[key] for key in keys}
        for group in stage_record(manifest, "check operators").get("verdicts", ())
        for name in group["nodes"]
    }


def _edges(graph: GraphRecord) -> Iterator[Edge]:
    """From who makes a value to who reads it; what a subgraph computes goes to the node that holds it."""
    count = len(graph["nodes"])
    makers = {place: count + number for number, place in enumerate(graph["inputs"])}
    makers |= {place: number for number, node in enumerate(graph["nodes"]) for place in node["outputs"]}
    readers = [node["inputs"] for node in graph["nodes"]]
    readers += [[] for _ in graph["inputs"]]
    readers += [[place] for place in graph["outputs"]]
    seen: set[Edge] = set()
    read: set[int] = set()
    for reader, places in enumerate(readers):
        for place in places:
            if place in makers:
                read.add(makers[place])
                edge = (makers[place], reader)
                if edge not in seen:
                    seen.add(edge)
                    yield edge
    for number, node in enumerate(graph["nodes"]):
        if "within" in node and number not in read:
            yield number, node["within"]


def _modes(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What nodes can be coloured by."""
    return [
        _mode(
            "verdict", SUPPORT_COLOURS, nodes, lambda node: node["verdict"]["support"] if "verdict" in node else None
        ),
        _mode("precision", PRECISION_COLOURS, nodes, lambda node: node.get("precision")),
        _mode("error", _colours(ERROR_STEPS), nodes, lambda node: _step(ERROR_STEPS, node.get("error"))),
        _mode("time", _colours(TIME_STEPS), nodes, lambda node: _step(TIME_STEPS, node.get("time"))),
    ]


def _mode(
    name: str,
    colours: Mapping[str, str],
    nodes: Sequence[Mapping[str, Any]],
    category: Callable[[Mapping[str, Any]], str | None],
) -> dict[str, Any]:
    of = [category(node) for node in nodes]
    present = [label for label in colours if label in of]
    return {
        "name": name,
        "categories": [{"label": label, "colour": colours[label], "count": of.count(label)} for label in present],
        "of": [-1 if label is None else present.index(label) for label in of],
    }


Steps = Sequence[tuple[float, str, str]]


def _colours(steps: Steps) -> dict[str, str]:
    return {label: colour for _, label, colour in steps}


def _step(steps: Steps, value: float | None) -> str | None:
    return None if value is None else next((label for limit, label, _ in steps if value < limit), steps[-1][1])
