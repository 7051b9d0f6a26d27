"""Whether a model multiplies 8-bit integers."""

from __future__ import annotations

from edgekit.model import Model

INTEGER_OPERATORS = frozenset(
    {
        "QuantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "ConvInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
        "QAttention",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
    }
)
"""Operators that show that a model multiplies integers; a model that only stores weights as integers has none."""


def multiplies_integers(model: Model) -> bool:
    """Whether a model quantizes activations, so that its products depend on a processor's instructions."""
    return any(node.op_type in INTEGER_OPERATORS for node in model.graph_model.graph.all_nodes())
