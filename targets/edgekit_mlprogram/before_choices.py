"""By which values a program that chooses boxes is compared: those before the choice.

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
"""Operators that compute from what was chosen: outputs behind them are compared themselves."""


@dataclass(frozen=True)
class BeforeChoices:
    """What is compared in place of outputs that depend on which boxes are chosen."""

    values: frozenset[str]
    """What decides the choice, and what it takes parts of, by ONNX names."""
    outputs: frozenset[str]
    """The outputs that depend on it."""


def before_choices(graph: ir.Graph) -> BeforeChoices | None:
    """The values before non-maximum suppression; None where there is none, or layers compute from what it chooses.

    The choice begins where the boxes with the largest scores are taken for suppression.
    """
    suppressions = {node for node in graph if node.op_type == SUPPRESSION and not node.domain}
    chooses = suppressions | {node for node in _before(suppressions) if node.op_type == TOP and not node.domain}
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
    return BeforeChoices(frozenset(values), frozenset(outputs))


def _is_computed(value: ir.Value) -> bool:
    """Whether it is made of floats: the numbers of classes are whole, and decided by the scores."""
    producer = value.producer()
    if producer is None or constant(value) is not None or value.dtype not in FLOATS:
        return False
    return producer.op_type != "Cast" or (producer.inputs[0] is not None and producer.inputs[0].dtype in FLOATS)


def _before(nodes: set[ir.Node]) -> set[ir.Node]:
    """The nodes that some are computed from."""
    found: set[ir.Node] = set()
    front = list(nodes)
    while front:
        for value in front.pop().inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer not in found:
                found.add(producer)
                front.append(producer)
    return found
