"""Compiles a model that a provider refuses as a whole in halves, and these in halves, down to single nodes.

Some refusals are of one node (Qualcomm's "Failed to compose Qnn graph"), some of the whole (memory); none says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from edgekit.errors import EdgeKitError
from edgekit.graph.extraction import extract_part
from edgekit.model import Model, read_by
from edgekit_onnxruntime.assignment import Assignment, CompilerError, SilentCompilerError

MOST_COMPILATIONS = 48
"""Each takes seconds; nodes of what is left then stay unknown."""

MOST_IN_VAIN = 16
"""Where this number of parts is refused and none compiles, the compiler is at fault, and not the model."""

Assign = Callable[[Model], Assignment]


@dataclass
class Parts:
    """What became of parts of a model."""

    compiled: list[tuple[Mapping[str, str], Assignment]] = field(default_factory=list)
    """For each part that compiles, what the assignment calls a node by the node's own name, and the assignment."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why a node is refused alone, by its name; empty where nothing compiles, which tells nothing of nodes."""
    compilations: int = 0


def in_parts(model: Model, assign: Assign) -> Parts:
    """Compiles halves of the model's own graph; what stands in bodies goes with the node that holds them.

    Args:
        model: The model, which is refused as a whole; types and shapes are known as far as they can be.
        assign: Compiles a model.
    """
    found = Parts()
    waiting = _halves(list(model.graph))
    while waiting and found.compilations < (MOST_COMPILATIONS if found.compiled else MOST_IN_VAIN):
        nodes = waiting.pop(0)
        try:
            part = _part(model, nodes)
        except EdgeKitError:
            part = None  # it ends in what nobody reads, or starts with a type that is not known
        if part is None:
            waiting += _halves(nodes)
            continue
        found.compilations += 1
        try:
            assignment = assign(part)
        except SilentCompilerError:
            break  # the other parts may take as long
        except CompilerError as error:
            if len(nodes) == 1:
                found.refused[nodes[0].name or ""] = str(error)
            waiting += _halves(nodes)
        else:
            names = {node.name or "": f"node{place}" for place, node in enumerate(part.graph.all_nodes())}
            found.compiled.append((names, assignment))
    if not found.compiled:
        found.refused.clear()
    return found


def _halves(nodes: list[ir.Node]) -> list[list[ir.Node]]:
    middle = len(nodes) // 2
    return [nodes[:middle], nodes[middle:]] if middle else []


def _part(model: Model, nodes: Sequence[ir.Node]) -> Model | None:
    """The nodes as a model; None where nothing reads what they make."""
    inside = set(nodes)
    outputs = [
        value.name
        for node in nodes
        for value in node.outputs
        if value.name and (value.is_graph_output() or any(reader not in inside for reader, _ in value.uses()))
    ]
    given = dict.fromkeys(
        value.name or ""
        for node in nodes
        for value in read_by(node)
        if value.producer() not in inside and not value.is_initializer()
    )
    return extract_part(model, outputs=outputs, inputs=list(given)) if outputs else None
