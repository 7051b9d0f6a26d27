"""Nodes of models that ONNX Runtime optimized for one processor and saved.

At its level *all*, ONNX Runtime computes convolutions and pools in blocks of channels, and stores weights in that
layout. The number of channels in a block depends on the processor (16 with AVX-512, 8 with AVX2), and the file does not
state it: on another processor ONNX Runtime (1.31) loads the file without an error and computes other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import node_name, op_name

LAID_OUT = "computes in a memory layout of one processor"
"""Why a node in such a layout runs on no other device."""
OPTIMIZE_LESS = "save the optimized model at ONNX Runtime's level extended or lower"
"""The hint for nodes in such a layout."""

_DOMAINS = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})


def is_laid_out(node: ir.Node) -> bool:
    """Whether a node's operator is one that ONNX Runtime inserts for the processor on which it optimizes a model."""
    return node.domain in _DOMAINS


def laid_out_nodes(model: ir.Model) -> Iterator[OpGap]:
    """The nodes of a model and its subgraphs that are in a layout of one processor, as gaps."""
    for node in model.graph.all_nodes():
        if is_laid_out(node):
            yield OpGap(op_type=op_name(node), node=node_name(node), reason=LAID_OUT, hint=OPTIMIZE_LESS)
