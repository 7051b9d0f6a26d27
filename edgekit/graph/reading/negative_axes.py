"""Negative axes become axes that count from the start, in opsets that do not allow negative ones.

Before opset 11, the specification allows no negative axes for most operators. Exporters write them nevertheless, and
ONNX Runtime counts them from the end. ONNX's shape inference, however, then returns no shape for a Concat, and an
unchanged shape for a Squeeze or an Unsqueeze.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

ALLOWED_SINCE = 11
"""The operator set whose operators count negative axes from the end."""
SAME_RANK = {"Concat", "Hardmax", "LogSoftmax", "LpNormalization", "Softmax", "Split", "TopK"}
"""Operators whose results have the rank of their first operand, whatever the axis is."""


def with_positive_axes(model: Model) -> Model:
    """Returns the model with axes counted from the start, where the ranks of the nodes' operands are known.

    Args:
        model: The model; it is returned itself from opset 11 on, and if no axis is negative.
    """
    if not 0 < model.opset < ALLOWED_SINCE or not any(True for _ in _negative(model.graph)):
        return model
    copy = model.with_graph(model.graph_model.clone())
    sizes_tell_ranks = any(
        node.op_type == "Squeeze" and "axes" not in node.attributes for node in copy.graph.all_nodes()
    )
    while True:  # a wrong rank makes the ranks behind it wrong, so nodes behind it wait for the next round
        ranks = _ranks(infer_shapes(copy, strict=False))
        doubtful: set[ir.Value] = set()
        changed = False
        for node in copy.graph.all_nodes():
            is_negative = _axes(node) is not None
            rank = None if doubtful.intersection(node.inputs) or not is_negative else _rank(node, ranks)
            if rank is not None:
                _count_from_start(node, rank)
                changed = True
            may_differ = is_negative and (sizes_tell_ranks or rank is None or not _keeps(node, rank, ranks))
            if may_differ or doubtful.intersection(node.inputs):
                doubtful.update(node.outputs)
        if not changed:
            return copy


def _negative(graph: ir.Graph) -> Iterator[ir.Node]:
    return (node for node in graph.all_nodes() if _axes(node) is not None)


def _axes(node: ir.Node) -> list[int] | None:
    """Returns the axes of a standard node if one of them counts from the end, else None."""
    if node.domain:
        return None
    for name in ("axis", "axes"):
        attribute = node.attributes.get(name)
        if attribute is None or attribute.is_ref():
            continue
        axes = [attribute.as_int()] if attribute.type == ir.AttributeType.INT else list(attribute.as_ints())
        return axes if any(axis < 0 for axis in axes) else None
    return None


def _ranks(model: Model) -> dict[str, int]:
    """The ranks that are known, by value; names are unique in a loaded model."""
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph.all_nodes() for value in node.outputs]
    return {value.name: len(value.shape) for value in values if value.name and value.shape is not None}


def _rank(node: ir.Node, ranks: dict[str, int]) -> int | None:
    """Returns the rank in which a node's axes count: an operand's, for Unsqueeze the result's; None if unknown."""
    found = next((ranks[value.name] for value in node.inputs if value is not None and value.name in ranks), None)
    if found is None or node.op_type != "Unsqueeze":
        return found
    return found + len(_axes(node) or ())


def _keeps(node: ir.Node, rank: int, ranks: dict[str, int]) -> bool:
    """Whether the results are known to have the operand's rank, and would have it for any axis."""
    keepdims = node.attributes.get("keepdims")
    reduces = node.op_type.startswith("Reduce") or node.op_type in {"ArgMax", "ArgMin"}
    same = node.op_type in SAME_RANK or (reduces and (keepdims is None or keepdims.as_int() == 1))
    return same and all(value.name is not None and ranks.get(value.name) == rank for value in node.outputs)


def _count_from_start(node: ir.Node, rank: int) -> None:
    positive = [axis + rank if axis < 0 else axis for axis in _axes(node) or ()]
    if "axes" in node.attributes:
        node.attributes.add(ir.AttrInt64s("axes", positive))
    else:
        node.attributes.add(ir.AttrInt64("axis", positive[0]))
