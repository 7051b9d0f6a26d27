"""Loops that repeat each row of a tensor by the counts in another tensor: one Gather takes all rows at once.

TorchScript's exporter writes ``torch.repeat_interleave`` this way, with which speech synthesis stretches letters to
their durations: both tensors become sequences of parts of size 1, an iteration expands one part, and a growing sequence
collects the parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

COUNTS = frozenset([ir.DataType.INT32, ir.DataType.INT64])
_EXPANDING = frozenset(["Expand", "Reshape", "SequenceInsert"])
_OTHERS = frozenset(
    ["Cast", "Concat", "Constant", "ConstantOfShape", "Equal", "Identity", "Mul", "SequenceAt", "Shape", "Unsqueeze"]
)
"""The body's other operators, which compute the size that a row is expanded to."""


class _Repeated(NamedTuple):
    rows: ir.Value
    axis: int
    counts: ir.Value


def repeat_rows_at_once(model: ir.Model) -> bool:
    """Replaces loops that repeat rows, in place; returns whether there were any."""
    changed = False
    for node in list(model.graph):
        if node.op_type != "ConcatFromSequence" or node.domain or (found := _repeated(node)) is None:
            continue
        build = NodeBuilder(model.opset_imports[""], f"{node_name(node)}/repeated")
        counts = build.cast(found.counts, ir.DataType.INT64)
        ends = build("CumSum", counts, np.array(0))
        total = build.reduce("ReduceSum", counts, [0], keepdims=False)
        places = build.unsqueeze(build("Range", np.array(0), total, np.array(1)), [1])
        is_behind = build("Not", build("Less", places, build.unsqueeze(ends, [0])))
        row = build.reduce("ReduceSum", build.cast(is_behind, ir.DataType.INT64), [1], keepdims=False)
        result = build("Gather", found.rows, row, axis=found.axis)
        for value in build.initializers:
            model.graph.register_initializer(value)
        ir.convenience.replace_nodes_and_values(model.graph, node, [node], build.nodes, node.outputs, [result])
        changed = True
    if changed:
        RemoveUnusedNodesPass()(model)
    return changed


def _repeated(collected: ir.Node) -> _Repeated | None:
    """Returns what a loop repeats if ``collected`` joins its sequence of repeated rows, or None for other loops."""
    loop = _made_by(collected.inputs[0], "Loop")
    if loop is None or len(loop.inputs) != 3 or collected.attributes.get_int("new_axis", 0) != 0:
        return None
    if _made_by(loop.inputs[2], "SequenceEmpty") is None:
        return None
    body = loop.attributes["body"].as_graph()
    turn, _, sequence = body.inputs
    operators = {node.op_type for node in body if not node.domain}
    insert = _made_by(body.outputs[1], "SequenceInsert")
    if insert is None or insert.inputs[0] is not sequence or insert.inputs[2:]:
        return None
    if not operators >= _EXPANDING or operators - _EXPANDING - _OTHERS - {"Where"}:
        return None
    parts = [node for node in body if node.op_type == "SequenceAt"]
    if len(parts) != 2 or any(node.inputs[1] is not turn for node in parts):
        return None
    splits = [split for node in parts if (split := _split_in_ones(node.inputs[0])) is not None]
    counts = [source for source, _ in splits if source.dtype in COUNTS and _rank(source) == 1]
    rows = [(source, axis) for source, axis in splits if source not in counts]
    if len(counts) != 1 or len(rows) != 1:
        return None
    (source, axis), rank = rows[0], _rank(rows[0][0])
    if rank is None or axis % rank != collected.attributes["axis"].as_int() % rank:
        return None
    return _Repeated(source, axis % rank, counts[0])


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else value.shape.rank()


def _made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Returns the node that makes the value if it has the given operator, else None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op_type and not node.domain else None


def _split_in_ones(sequence: ir.Value | None) -> tuple[ir.Value, int] | None:
    """Returns the tensor and the axis that a sequence splits into parts of size 1, or None for other sequences."""
    node = _made_by(sequence, "SplitToSequence")
    if node is None or len(node.inputs) < 2 or node.inputs[0] is None or not _is_ones(node.inputs[1]):
        return None
    return node.inputs[0], node.attributes.get_int("axis", 0)


def _is_ones(sizes: ir.Value | None) -> bool:
    known = None if sizes is None else ir.convenience.get_const_tensor(sizes)
    filled = _made_by(sizes, "ConstantOfShape")
    if known is None and filled is not None:
        known = filled.attributes.get_tensor("value", None)
    return known is not None and bool((known.numpy() == 1).all())
