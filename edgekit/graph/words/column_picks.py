"""Columns picked from concatenated tensors of texts are picked from the single tensors instead."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.words.lists import ML_DOMAIN
from edgekit.model import node_name

_PICKS = {("ArrayFeatureExtractor", ML_DOMAIN), ("Gather", "")}


def pick_from_parts(graph: ir.Graph, opset: int) -> None:
    """Makes nodes that pick columns of only one concatenated tensor read that tensor, in place.

    skl2onnx concatenates the columns of a table before it encodes each one separately. Columns that are read separately
    do not have to share one numbering of words.
    """
    for node in list(graph):
        if (node.op_type, node.domain) not in _PICKS or node.inputs[0] is None or node.inputs[1] is None:
            continue
        whole, chosen = node.inputs[0], ir.convenience.get_const_tensor(node.inputs[1])
        parts = whole.producer()
        if chosen is None or whole.dtype != ir.DataType.STRING or parts is None or not _side_by_side(parts):
            continue
        if node.op_type == "Gather" and not _is_last(node.attributes.get_int("axis", 0), whole):
            continue
        found = _part(parts, chosen.numpy())
        if found is None:
            continue
        part, columns = found
        build = NodeBuilder(opset, f"{node_name(node)}/columns")
        node.replace_input_with(1, build.constant(columns))
        node.replace_input_with(0, part)
        for value in build.initializers:
            graph.register_initializer(value)
        if not whole.uses() and not whole.is_graph_output():
            graph.remove(parts, safe=True)


def _side_by_side(node: ir.Node) -> bool:
    """Whether a node puts tensors together along their last axis."""
    return (node.op_type, node.domain) == ("Concat", "") and _is_last(
        node.attributes.get_int("axis", 0), node.outputs[0]
    )


def _is_last(axis: int, value: ir.Value) -> bool:
    return value.shape is not None and axis in (-1, len(value.shape) - 1)


def _part(node: ir.Node, chosen: np.ndarray) -> tuple[ir.Value, np.ndarray] | None:
    """The part that all chosen columns are in, and their places in it; None where that is not known."""
    widths = [None if part is None or part.shape is None else part.shape[-1] for part in node.inputs]
    known = [width for width in widths if isinstance(width, int)]
    if len(known) < len(widths) or not chosen.size:
        return None
    places = np.where(chosen < 0, chosen + sum(known), chosen)
    start = 0
    for part, width in zip(node.inputs, known, strict=True):
        if part is not None and ((start <= places) & (places < start + width)).all():
            return part, places - start
        start += width
    return None
