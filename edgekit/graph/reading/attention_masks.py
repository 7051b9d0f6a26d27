"""Masks of Attention that apply to all queries alike get a row for each query, as ONNX Runtime requires.

The standard broadcasts a mask to batch, heads, queries and keys. PyTorch's exporter writes the ``key_padding_mask`` of
``MultiheadAttention`` as a mask with one row for all queries, which ONNX Runtime refuses.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

_MASK = 3
"""Which input of Attention is the mask."""
_QUERIES = -2
"""The axis of the queries, in ``Q`` of three and of four axes, and in masks."""


def give_each_query_a_mask(graph: ir.Graph, opset: int) -> int:
    """Expands masks of Attention that have one row for several queries, or for an open number of queries, in place.

    Rules: https://onnx.ai/onnx/operators/onnx__Attention.html, ``attn_mask``.

    Returns:
        The number of expanded masks.
    """
    found = [node for node in graph.all_nodes() if _has_one_row(node)]
    for node in found:
        queries, mask = node.inputs[0], node.inputs[_MASK]
        assert queries is not None
        assert queries.shape is not None
        assert mask is not None
        assert mask.shape is not None
        build = NodeBuilder(opset, node_name(node))
        count = build.slice(build("Shape", queries), [_QUERIES], [_QUERIES + 1], [0])
        expanded = build("Expand", mask, build("Concat", count, np.array([1], np.int64), axis=0))
        expanded.type = mask.type
        expanded.shape = ir.Shape([*mask.shape[:_QUERIES], queries.shape[_QUERIES], mask.shape[-1]])
        home = node.graph
        assert isinstance(home, ir.Graph)
        for constant in build.initializers:
            home.register_initializer(constant)
        home.insert_before(node, build.nodes)
        node.replace_input_with(_MASK, expanded)
    return len(found)


def _has_one_row(node: ir.Node) -> bool:
    if node.op_type != "Attention" or node.domain or len(node.inputs) <= _MASK:
        return False
    queries, mask = node.inputs[0], node.inputs[_MASK]
    if queries is None or queries.shape is None or mask is None or mask.shape is None:
        return False
    if len(queries.shape) < 2 or len(mask.shape) < 2:
        return False
    return mask.shape[_QUERIES] == 1 and queries.shape[_QUERIES] != 1
