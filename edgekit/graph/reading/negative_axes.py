"""Axes that count from the end become axes that count from the start, in operator sets that know no others.

Before operator set 11 the specification allows no negative axes for most operators. Exporters write them all the same,
and ONNX Runtime counts from the end; but ONNX's shape inference then tells nothing of a Concat, and of a Squeeze or an
Unsqueeze that the shape stays as it is.
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
    """The model with the axes of nodes whose operands' ranks are known counted from the start.

    Args:
        model: Given back as it is in operator set 11 and newer ones, and where all axes are positive.
    """
    if not 0 < model.opset < ALLOWED_SINCE or not any(True for _ in _negative(model.graph)):
        return model
    copy = model.with_graph(model.graph_model.clone())
    sizes_tell_ranks = any(
        node.op_type == "Squeeze" and "axes" not in node.attributes for node in copy.graph.all_nodes()
    )
    while True:  # a wrong rank makes those behind it wrong, so these wait for the next turn
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
    """The axes of a standard node, one of which counts from the end."""
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
    """How many axes a node's axes are counted among: those of an operand, and for an Unsqueeze of the result."""
    found = next((ranks[value.name] for value in node.inputs if value is not None and value.name in ranks), None)
    if found is None or node.op_type != "Unsqueeze":
        return found
    return found + len(_axes(node) or ())


def _keeps(node: ir.Node, rank: int, ranks: dict[str, int]) -> bool:
    """Whether the results have the rank of the operand with any axis, and are known to."""
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
