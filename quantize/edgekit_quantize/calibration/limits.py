"""Computes the limits of a tensor's numbers for any sample: those behind a Sigmoid lie between 0 and 1, for example."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from edgekit_quantize.calibration.ranges import Range
from edgekit_quantize.graph.nodes import is_standard, scalar

UNLIMITED = (-math.inf, math.inf)
_LIMITED: dict[str, Range] = {
    **dict.fromkeys(("HardSigmoid", "Sigmoid", "Softmax"), (0.0, 1.0)),
    **dict.fromkeys(("Cos", "Erf", "Sin", "Softsign", "Tanh"), (-1.0, 1.0)),
}
"""Operators whose outputs have fixed limits, with these limits."""
_KEEPS = (
    *("AveragePool", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalAveragePool", "GlobalMaxPool", "Identity"),
    *("MaxPool", "ReduceMax", "ReduceMean", "ReduceMin", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze"),
    *("Tile", "Transpose", "Unsqueeze"),
)
"""Operators whose outputs stay within the limits of their first input, except for zeros added by padding."""


def limits(graph: ir.Graph) -> dict[str, Range]:
    """The limits of the tensors that have any, by name.

    Args:
        graph: The prepared graph.
    """
    found: dict[str, Range] = {}
    for node in graph.all_nodes():
        reached = _reached(node, [_of(value, found) for value in node.inputs])
        if reached != UNLIMITED:
            found.update((value.name, reached) for value in node.outputs if value.name)
    return found


def _of(value: ir.Value | None, found: dict[str, Range]) -> Range:
    return UNLIMITED if value is None or value.name is None else found.get(value.name, UNLIMITED)


def _reached(node: ir.Node, inputs: Sequence[Range]) -> Range:
    if not is_standard(node, *_LIMITED, *_KEEPS, "Clip", "Concat") or not inputs:
        return UNLIMITED
    low, high = inputs[0]
    if node.op_type in _LIMITED:
        return _LIMITED[node.op_type]
    if node.op_type == "Concat":
        return min(low for low, _ in inputs), max(high for _, high in inputs)
    if node.op_type == "Clip":
        least, most = (scalar(value) for value in (*node.inputs[1:3], None, None)[:2])
        return (low if least is None else max(low, least)), (high if most is None else min(high, most))
    return low, high
