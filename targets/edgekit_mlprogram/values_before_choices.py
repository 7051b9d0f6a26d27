"""Finds the values by which a program that chooses boxes is compared: those before the choice.

Where two boxes have nearly the same score, rounding decides which comes first, and rows of the output change places:
no signal-to-noise ratio of the output tells how near coordinates and scores are.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from edgekit.graph.nodes import constant

SUPPRESSION, TOP = "NonMaxSuppression", "TopK"
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", "Einsum"})
"""Layers: if one of these computes from the chosen boxes, the outputs themselves are compared."""


@dataclass(frozen=True)
class ValuesBeforeChoices:
    """What is compared in place of outputs that depend on which boxes are chosen."""

    values: frozenset[str]
    """ONNX names of the values that decide the choice, and of the values that elements are chosen from."""
    outputs: frozenset[str]
    """The outputs that depend on the choice."""


def before_choices(graph: ir.Graph) -> ValuesBeforeChoices | None:
    """Returns the values before boxes are chosen; None if none are, or if layers compute from those that are.

    Non-maximum suppression chooses boxes; if a TopK node selects those that enter it, the choice begins at this node.
    Without suppression the TopK nodes choose that tell places, unless layers compute from them: rows are gathered from
    these places, as at the end of detectors that need no suppression (YOLOv10, YOLO26).
    """
    suppressions = {node for node in graph if node.op_type == SUPPRESSION and not node.domain}
    tops = [node for node in graph if node.op_type == TOP and not node.domain]
    if suppressions:
        before = _before(suppressions)
        chooses = suppressions | {node for node in tops if node in before}
    else:
        chooses = {node for node in tops if _tells_places(node) and not _has_layers_behind(node, graph)}
    behind = set(chooses)
    values: set[str] = set()
    for node in graph:
        given = [value for value in node.inputs if value is not None]
        if node not in behind and not any(value.producer() in behind for value in given):
            continue
        behind.add(node)
        if node.op_type in LAYERS:
            return None
        values.update(str(value.name) for value in given if value.producer() not in behind and _is_computed(value))
    if not values:
        return None
    outputs = {str(value.name) for value in graph.outputs if value.producer() in behind}
    return ValuesBeforeChoices(frozenset(values), frozenset(outputs))


def _is_computed(value: ir.Value) -> bool:
    """Whether a value is computed from floats; class numbers are integers, decided by the scores, and do not count."""
    producer = value.producer()
    if producer is None or constant(value) is not None or value.dtype not in FLOATS:
        return False
    return producer.op_type != "Cast" or (producer.inputs[0] is not None and producer.inputs[0].dtype in FLOATS)


def _tells_places(top: ir.Node) -> bool:
    """Whether the places of the largest numbers are read, or are an output."""
    places = top.outputs[1]
    return bool(places.uses()) or places.is_graph_output()


def _has_layers_behind(node: ir.Node, graph: ir.Graph) -> bool:
    """Whether layers compute from what a node gives, or nodes of a loop or a branch read it."""
    found, front = {node}, [node]
    while front:
        for value in front.pop().outputs:
            for reader in {reader for reader, _ in value.uses()} - found:
                if reader.op_type in LAYERS or reader.graph is not graph:
                    return True
                found.add(reader)
                front.append(reader)
    return False


def _before(nodes: set[ir.Node]) -> set[ir.Node]:
    """Returns the nodes that ``nodes`` are computed from, directly or through others."""
    found: set[ir.Node] = set()
    front = list(nodes)
    while front:
        for value in front.pop().inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer not in found:
                found.add(producer)
                front.append(producer)
    return found
