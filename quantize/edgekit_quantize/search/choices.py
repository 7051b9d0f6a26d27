"""Whether a model's first output is a choice between classes, by its graph and by what the float model answers."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.comparison.columns import Columns
from edgekit.comparison.decisions import Decision, DecisionCount
from edgekit_quantize.calibration.references import References
from edgekit_quantize.graph.nodes import is_standard

_FORMS = ("Cast", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that hand on all numbers of their first input, in another form."""


def decides(graph: ir.Graph) -> bool:
    """Whether the first output is a choice between classes.

    Softmax, ArgMax, and what a Gemm, or a MatMul with a bias, gives.
    """
    node = graph.outputs[0].producer() if graph.outputs else None
    while node is not None and is_standard(node, *_FORMS):
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    if node is None:
        return False
    if is_standard(node, "ArgMax"):
        return True
    if not _has_classes(graph.outputs[0]):
        return False
    if is_standard(node, "Softmax", "LogSoftmax", "Gemm"):
        return True
    operands = [value.producer() for value in node.inputs if value is not None]
    return is_standard(node, "Add") and any(n is not None and is_standard(n, "MatMul", "Gemm") for n in operands)


def _has_classes(value: ir.Value) -> bool:
    shape = value.shape
    return shape is None or (len(shape) >= 1 and shape[-1] != 1)


def has_decisions(references: References, decision: Decision) -> bool:
    """Whether something is decided in the float model's first output.

    It may hold amounts instead, or a few quantities of which the same one is always the largest: a bundle of such is
    judged by what varies between samples (:meth:`edgekit.comparison.columns.Columns.centred_db`).
    """
    count, columns = DecisionCount(decision), Columns()
    for reference in references.answers():
        output = next(iter(reference.outputs.values()))
        count.add(output, output)
        columns.add(output, output)
    return count.may_decide and columns.centred_db() is None
