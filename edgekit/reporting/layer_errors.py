"""Finds where a built model loses its accuracy: errors of values, except those that later layers even out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXACT_DB = 60.0
"""From this SQNR on a value counts as exact: rounding to float16 alone gives such an SQNR."""
LEAST_LOSS_DB = 3.0
"""Least loss of a layer that is named; neighboring layers differ by about this much anyway."""


@dataclass(frozen=True)
class Loss:
    """The loss of accuracy in one node."""

    node: str
    op_type: str
    before_db: float
    """The least SQNR of the node's inputs, at most :data:`EXACT_DB`; an input that was not compared has the least SQNR
    of those from which it is computed."""
    after_db: float

    @property
    def db(self) -> float:
        """By how many dB the SQNR falls."""
        return self.before_db - self.after_db


def carried_errors(graph: Mapping[str, Any], errors: Mapping[str, float | str]) -> dict[str, float]:
    """SQNR in dB of each compared value, counting only errors that later nodes carry on.

    A product may be far off while its sum with a much larger term is not. Therefore the SQNR of a value is the better
    of its own SQNR and the worst SQNR among the results of the nodes that read it.

    Args:
        graph: What ``graph.json`` holds.
        errors: SQNR by the name of a value; values that are not in it were not compared.
    """
    values, nodes = graph["values"], graph["nodes"]
    own = {place: float(errors[value["name"]]) for place, value in enumerate(values) if value["name"] in errors}
    results: dict[int, list[float | None]] = {}
    for node in nodes:
        outputs = [own.get(place) for place in node["outputs"] if place is not None]
        for place in node["inputs"]:
            if place in own:
                results.setdefault(place, []).extend(outputs)
    ends = set(graph["outputs"])
    carried = {}
    for place, figure in own.items():
        known = [result for result in results.get(place, [None]) if result is not None]
        evened_out = place not in ends and len(known) == len(results.get(place, [None]))
        carried[values[place]["name"]] = max(figure, min(known)) if evened_out else figure
    return carried


def largest_losses(graph: Mapping[str, Any], carried: Mapping[str, float], most: int) -> list[Loss]:
    """The nodes that lose most from their inputs to their outputs, the worst first.

    Args:
        graph: What ``graph.json`` holds; a node comes after those whose results it reads.
        carried: What :func:`carried_errors` returns.
        most: How many nodes to return at most.
    """
    values = graph["values"]
    reached: dict[int, float] = {}
    found = []
    for node in graph["nodes"]:
        before = min((reached.get(place, EXACT_DB) for place in node["inputs"] if place is not None), default=EXACT_DB)
        compared = []
        for place in node["outputs"]:
            if place is not None:
                figure = carried.get(values[place]["name"])
                reached[place] = before if figure is None else min(figure, EXACT_DB)
                compared += [] if figure is None else [reached[place]]
        if compared and before - min(compared) >= LEAST_LOSS_DB:
            found.append(Loss(node["name"], node["op"], before, min(compared)))
    return sorted(found, key=lambda loss: -loss.db)[:most]
