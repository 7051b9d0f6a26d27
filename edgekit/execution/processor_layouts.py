"""Nodes of models that ONNX Runtime optimized for one processor and saved.

At its level *all* it computes convolutions and pools in blocks of channels, and stores weights so. How many channels a
block has is the processor's (16 with AVX-512, 8 with AVX2), and the file does not say it: on another processor ONNX
Runtime (1.31) loads the file without a complaint and computes something else.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import node_name, op_name

LAID_OUT = "computes in a memory layout of one processor"
"""Why such a node goes to no other device."""
OPTIMIZE_LESS = "save the optimized model at ONNX Runtime's level extended or lower"
"""What can be done about it."""

_DOMAINS = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})


def is_laid_out(node: ir.Node) -> bool:
    """Whether a node is of an operator that ONNX Runtime puts in for the processor that it optimizes a model on."""
    return node.domain in _DOMAINS


def laid_out_nodes(model: ir.Model) -> Iterator[OpGap]:
    """Such nodes of a model and its subgraphs, as gaps."""
    for node in model.graph.all_nodes():
        if is_laid_out(node):
            yield OpGap(op_type=op_name(node), node=node_name(node), reason=LAID_OUT, hint=OPTIMIZE_LESS)
