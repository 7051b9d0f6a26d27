"""The data of the page's graph for the page's script: views, colors, and details of each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgekit.features.dimensions import shape_text
from edgekit.reporting import operator_families as families
from edgekit.reporting.blocks import Part, blocks, layers, part_edges
from edgekit.reporting.layer_errors import carried_errors
from edgekit.reporting.layout import COLUMN, ROW, Edge, layered_layout
from edgekit.reporting.precision import node_precisions
from edgekit.reporting.summary import Manifest, stage_record
from edgekit.units import bytes_text, decibel_text, duration_text

GraphRecord = Mapping[str, Any]
Node = Mapping[str, Any]

MOST_OF_NEXT_VIEW = 0.8
"""A view with more parts than this share of the next finer view is left out, since it shows hardly anything else."""
INPUT, OUTPUT = "Input", "Output"
"""The operators of the nodes that are added for the graph's inputs and outputs."""

FAMILY_COLOURS = {
    families.RECURRENT: "red",
    families.PRODUCTS: "blue",
    families.NORMALIZATION: "violet",
    families.POOLING: "amber",
    families.ACTIVATION: "green",
    families.ELEMENTWISE: "teal",
    families.MOVES: "grey",
    families.TYPES: "brown",
    families.OTHER: "pink",
}
"""Colors of operator families; the first family in this order that a part contains gives the part's color."""
SUPPORT_COLOURS = {
    "unsupported": "red",
    "falls back": "amber",
    "unknown": "grey",
    "decomposed": "blue",
    "supported": "green",
}
"""Colors of verdicts, the most severe first, which gives a part's color."""
NO_ARITHMETIC = "no arithmetic"
PRECISION_COLOURS = {
    "int8": "green",
    "int8 weights": "blue",
    "float16": "amber",
    "float32": "violet",
    NO_ARITHMETIC: "grey",
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
    """The number of bytes of weights of a node."""

    node: str
    op_type: str
    bytes: int


def page_graph(graph: GraphRecord, manifest: Manifest) -> dict[str, Any]:
    """The plain data that ``graph.js`` draws.

    Nodes that read nothing but weights, such as dequantization, are not shown: they count as part of the node that
    reads their result.
    """
    nodes = _nodes(graph, manifest)
    edges = list(_edges(graph))
    hidden = _weight_nodes(graph)
    shown = [number for number in range(len(nodes)) if number not in hidden]
    places = {number: place for place, number in enumerate(shown)}
    nodes = [nodes[number] for number in shown]
    edges = [(places[start], places[end]) for start, end in edges if start in places and end in places]
    views = [_view(name, parts, nodes, edges) for name, parts in _views(nodes, edges)]
    modes = [mode for mode in _modes(nodes, views) if mode["categories"]]
    for node in nodes:
        for measured in ("error", "time", "weights"):
            node.pop(measured, None)
    return {"nodes": nodes, "views": views, "modes": modes, "units": {"column": COLUMN, "row": ROW}}


def _views(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Edge]) -> Iterator[tuple[str, list[Part]]]:
    """The views from the coarsest to single nodes; a view with hardly fewer parts than the next one is left out."""
    count = sum(node["op"] not in (INPUT, OUTPUT) for node in nodes)
    borders = {
        kind: [Part(node["name"], (number,)) for number, node in enumerate(nodes) if node["op"] == kind]
        for kind in (INPUT, OUTPUT)
    }
    operators, names = [node["op"] for node in nodes[:count]], [node["name"] for node in nodes[:count]]
    inner = [(start, end) for start, end in edges if start < count and end < count]
    single = [Part(name, (number,)) for number, name in enumerate(names)]
    kept = [("nodes", single)]
    for name, parts in (("layers", layers(operators, names, inner)), ("blocks", blocks(operators, names, inner))):
        if 1 < len(parts) <= MOST_OF_NEXT_VIEW * len(kept[-1][1]):
            kept.append((name, parts))
    for name, parts in reversed(kept):
        yield name, [*borders[INPUT], *parts, *borders[OUTPUT]]


def _view(
    name: str, parts: Sequence[Part], nodes: Sequence[Mapping[str, Any]], edges: Sequence[Edge]
) -> dict[str, Any]:
    between = part_edges(parts, edges)
    layout = layered_layout(len(parts), between)
    place = {member: number for number, part in enumerate(parts) for member in part.members}
    leaving = {start for start, end in edges if place[start] != place[end]}
    return {
        "name": name,
        "parts": [
            {**_part(part, nodes, leaving), "x": x, "y": y} for part, (x, y) in zip(parts, layout.nodes, strict=True)
        ],
        "edges": [[*edge, *(axis for point in layout.routes.get(edge, ()) for axis in point)] for edge in between],
    }


def _part(part: Part, nodes: Sequence[Mapping[str, Any]], leaving: set[int]) -> dict[str, Any]:
    """The content of a part's box; for a single node, its operator and name."""
    members = [nodes[member] for member in part.members]
    made = [nodes[member]["outputs"][0][1] for member in part.members if member in leaving and nodes[member]["outputs"]]
    shown: dict[str, Any] = {
        "members": part.members,
        "shape": made[-1].partition(" ")[2].partition(",")[0] if made else "",
    }
    if len(members) == 1:
        return {**shown, "title": members[0]["op"], "name": members[0]["name"]}
    operators = Counter(node["op"] for node in members)
    facts = {"operators": ", ".join(f"{count} {operator}" for operator, count in operators.most_common())}
    if part.repeats > 1:
        facts["repeats"] = f"{part.repeats} blocks of the same {len(members) // part.repeats} operators"
    if weights := sum(node.get("weights", 0) for node in members):
        facts["weights"] = bytes_text(weights)
    if shares := [node["time"] for node in members if "time" in node]:
        facts["time"] = f"{sum(shares):.1%} of all nodes (in the reference on the CPU, not on the device)"
    if errors := [node["error"] for node in members if "error" in node]:
        facts["error"] = f"SQNR {decibel_text(min(errors))} at worst against the float model"
    heads = [node["op"] for node in members if families.family(node["op"]) in families.COMPUTING]
    title = f"{part.repeats} × {len(members) // part.repeats} nodes" if part.repeats > 1 else f"{len(members)} nodes"
    if len(heads) == 1:
        title = f"{heads[0]} +{len(members) - 1}"
    return {**shown, "title": title, "name": part.name, "facts": facts}


def weights_by_node(graph: GraphRecord) -> list[Weights]:
    """Bytes of the weights that each node reads, largest first.

    The weights of nodes that read nothing else, such as dequantization, count for the node that reads their result. A
    weight that several nodes read counts for the first.
    """
    return [
        Weights(node["name"], node["op"], count)
        for node, count in sorted(zip(graph["nodes"], _weight_bytes(graph), strict=True), key=lambda pair: -pair[1])
        if count
    ]


def _weight_nodes(graph: GraphRecord) -> set[int]:
    """Numbers of the nodes that read nothing but weights; a node with a subgraph reads more than its inputs."""
    constant = {place for place, value in enumerate(graph["values"]) if "bytes" in value}
    holders = {node["within"] for node in graph["nodes"] if "within" in node}
    found = set()
    for number, node in enumerate(graph["nodes"]):
        inputs = [place for place in node["inputs"] if place is not None]
        if inputs and number not in holders and constant.issuperset(inputs):
            constant.update(place for place in node["outputs"] if place is not None)
            found.add(number)
    return found - _makers_of(graph, graph["outputs"])


def _makers_of(graph: GraphRecord, values: Sequence[int]) -> set[int]:
    wanted = set(values)
    return {number for number, node in enumerate(graph["nodes"]) if wanted.intersection(node["outputs"])}


def _weight_bytes(graph: GraphRecord) -> list[int]:
    left = {place: value["bytes"] for place, value in enumerate(graph["values"]) if "bytes" in value}
    passing = _weight_nodes(graph)
    counts = []
    for number, node in enumerate(graph["nodes"]):
        count = sum(left.pop(place, 0) for place in node["inputs"] if place is not None)
        outputs = [place for place in node["outputs"] if place is not None]
        if number in passing and outputs:
            left[outputs[0]] = count
            count = 0
        counts.append(count)
    return counts


def _nodes(graph: GraphRecord, manifest: Manifest) -> list[dict[str, Any]]:
    """The graph's nodes, then its inputs, then its outputs."""
    values = graph["values"]
    verdicts = _verdicts(manifest)
    precisions = node_precisions(graph, manifest)
    record = stage_record(manifest, "layers")
    own, times = record.get("sqnr_db", {}), record.get("microseconds", {})
    errors = carried_errors(graph, own)
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
            shown["weights"] = weights
            shown["facts"]["weights"] = bytes_text(weights)
        if (verdict := verdicts.get(name)) is not None:
            shown["verdict"] = verdict
        error = min((errors[value["name"]] for value in outputs if value["name"] in errors), default=None)
        if error is not None:
            shown["error"] = error
            shown["facts"]["error"] = _error_text(min(float(own.get(value["name"], "inf")) for value in outputs), error)
        if name in times and total:
            shown["time"] = times[name] / total
            share = f"{times[name] / total:.1%} of all nodes (in the reference on the CPU, not on the device)"
            shown["facts"]["time"] = f"{duration_text(times[name])}, {share}"
        found.append(shown)
    found += [_border(INPUT, values[place]) for place in graph["inputs"]]
    found += [_border(OUTPUT, values[place]) for place in graph["outputs"]]
    return found


def _error_text(own: float, carried: float) -> str:
    text = f"SQNR {decibel_text(own)} against the float model"
    return text if own >= carried else f"{text}; later nodes reduce the error, to {decibel_text(carried)}"


def _border(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    side = "outputs" if kind == INPUT else "inputs"
    return {"name": value["name"], "op": kind, "inputs": [], "outputs": [], "attributes": {}, "facts": {}} | {
        side: [_value(value)]
    }


def _value(value: Mapping[str, Any]) -> list[str]:
    shape = shape_text(value["shape"])
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
    """Edges from the node that computes a value to its readers, and from a subgraph's results to the node with it."""
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


def _modes(nodes: Sequence[Node], views: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ways to color nodes, without categories if nothing is known; a part of several nodes gets one color."""
    ways = (
        _Mode("operator", FAMILY_COLOURS, lambda some: _first(FAMILY_COLOURS, map(_family, some))),
        _Mode("verdict", SUPPORT_COLOURS, lambda some: _first(SUPPORT_COLOURS, map(_support, some))),
        _Mode("precision", PRECISION_COLOURS, _precision),
        _Mode("error", _colours(ERROR_STEPS), lambda some: _step(ERROR_STEPS, _least(some, "error"))),
        _Mode("time", _colours(TIME_STEPS), lambda some: _step(TIME_STEPS, _sum(some, "time"))),
    )
    return [way.as_record(nodes, views) for way in ways]


@dataclass(frozen=True)
class _Mode:
    """A way to color nodes."""

    name: str
    colours: Mapping[str, str]
    label: Callable[[Sequence[Node]], str | None]
    """The category of one node, or of several together; None if they have none."""

    def as_record(self, nodes: Sequence[Node], views: Sequence[dict[str, Any]]) -> dict[str, Any]:
        single = [self.label([node]) for node in nodes]
        parts = [[self.label([nodes[at] for at in part["members"]]) for part in view["parts"]] for view in views]
        present = [label for label in self.colours if label in single or any(label in found for found in parts)]
        numbers = {label: place for place, label in enumerate(present)}
        return {
            "name": self.name,
            "categories": [
                {"label": label, "colour": self.colours[label], "count": single.count(label)} for label in present
            ],
            "of": [[-1 if label is None else numbers[label] for label in found] for found in parts],
        }


def _family(node: Node) -> str | None:
    return None if node["op"] in (INPUT, OUTPUT) else families.family(node["op"])


def _support(node: Node) -> str | None:
    return str(node["verdict"]["support"]) if "verdict" in node else None


def _precision(nodes: Sequence[Node]) -> str | None:
    """The precision in which most of the nodes compute; None if none of them has a precision."""
    counts = Counter(node["precision"] for node in nodes if "precision" in node)
    idle = counts.pop(NO_ARITHMETIC, 0)
    return counts.most_common(1)[0][0] if counts else NO_ARITHMETIC if idle else None


def _first(order: Iterable[str], labels: Iterable[str | None]) -> str | None:
    present = set(labels)
    return next((label for label in order if label in present), None)


def _least(nodes: Sequence[Node], key: str) -> float | None:
    return min((node[key] for node in nodes if key in node), default=None)


def _sum(nodes: Sequence[Node], key: str) -> float | None:
    found = [node[key] for node in nodes if key in node]
    return sum(found) if found else None


Steps = Sequence[tuple[float, str, str]]


def _colours(steps: Steps) -> dict[str, str]:
    return {label: colour for _, label, colour in steps}


def _step(steps: Steps, value: float | None) -> str | None:
    return None if value is None else next((label for limit, label, _ in steps if value < limit), steps[-1][1])
