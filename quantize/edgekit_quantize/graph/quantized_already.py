"""Detects models that are quantized already."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from edgekit_quantize.graph.nodes import constant, is_standard

DYNAMIC = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
BLOCKED = "MatMulNBits"
"""ONNX Runtime's matrix product with block-wise quantized weights."""


def quantized_already(model: ir.Model) -> str | None:
    """A warning if a model rounds activations to integers, or multiplies block-wise quantized weights; else None."""
    found = Counter(node.op_type for node in model.graph.all_nodes() if _computes_with_integers(node))
    if not found:
        return None
    counted = ", ".join(f"{count} {op_type}" for op_type, count in sorted(found.items()))
    return (
        f"the model is quantized already ({counted}), and the accuracy is measured against it: "
        "quantize the float model that it was made from"
    )


def _computes_with_integers(node: ir.Node) -> bool:
    if is_standard(node, "QuantizeLinear"):
        return constant(node.inputs[0]) is None
    return is_standard(node, *DYNAMIC) or (node.domain == "com.microsoft" and node.op_type == BLOCKED)
