"""Compiles a model that a provider refuses as a whole in parts: halves, halves of refused halves, down to single nodes.

Some refusals are caused by one node (Qualcomm's "Failed to compose Qnn graph"), others by the whole model (memory); no
message tells which.
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
"""The maximum number of compilations, each of which takes seconds; nodes that are not reached by then stay unknown."""

MOST_IN_VAIN = 16
"""If this number of parts is refused and none compiles, the compiler is at fault, and not the model."""

Assign = Callable[[Model], Assignment]


@dataclass
class Parts:
    """The results of compiling parts of a model."""

    compiled: list[tuple[Mapping[str, str], Assignment]] = field(default_factory=list)
    """For each part that compiles, a map from its nodes' names to their names in the assignment, and the assignment."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why a node is refused alone, by its name; empty if no part compiles, as refusals then say nothing about nodes."""
    compilations: int = 0


def in_parts(model: Model, assign: Assign) -> Parts:
    """Compiles parts of the model's main graph; nodes in bodies belong to the node that holds the body.

    Args:
        model: The model, which is refused as a whole; its types and shapes are inferred as far as possible.
        assign: Compiles a model.
    """
    found = Parts()
    waiting = _halves(list(model.graph))
    while waiting and found.compilations < (MOST_COMPILATIONS if found.compiled else MOST_IN_VAIN):
        nodes = waiting.pop(0)
        try:
            part = _part(model, nodes)
        except EdgeKitError:
            part = None  # it has an output that nobody reads, or an input of unknown type
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
    """The nodes as a model; None if nothing reads their outputs."""
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
