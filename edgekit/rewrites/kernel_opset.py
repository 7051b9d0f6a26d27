"""Moves models to a version of the standard operators that ONNX Runtime has kernels for."""

from __future__ import annotations

from edgekit.execution.kernels import operator_without_kernel
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.definition import Definition
from edgekit.rewrites.opset import has_older_form, lowered

OLDEST = 21
"""The oldest opset that a model is moved to; models of it, and older ones, stay as they are. Before it
GroupNormalization reads a scale for each group, not for each channel, which the number of its inputs does not tell."""
_OTHER_MEANING = frozenset({"Attention"})
"""Operators whose older versions compute something else from the same inputs and attributes."""


def in_kernels_opset(model: Model) -> Model:
    """Returns the model in a form for which ONNX Runtime has kernels; unchanged if it has them, or if there is none.

    That is an older opset in which the nodes are the same, such as 27 for a DequantizeLinear of opset 28, of which only
    element types are new. Failing that, operators are replaced by their definitions in the standard: ONNX Runtime does
    that as well, but not if the standard has changed an operator of the definition since.
    """
    if model.opset <= OLDEST or operator_without_kernel(model) is None:
        return model
    found = _lowered(model)
    if found is not None:
        return found
    expanded = rewritten(infer_shapes(model, strict=False), _in_the_way, [Definition()]).model
    return expanded if operator_without_kernel(expanded) is None else _lowered(expanded) or model


def _lowered(model: Model) -> Model | None:
    """The model in the newest older opset for which there are kernels; None if there is none."""
    if any(node.op_type in _OTHER_MEANING for node in model.graph.all_nodes()):
        return None
    for opset in range(model.opset - 1, OLDEST - 1, -1):
        older = lowered(model, opset)
        if older is model:
            return None
        if operator_without_kernel(older) is None:
            return older
    return None


def _in_the_way(model: Model) -> set[str]:
    """The nodes with a definition that lack a kernel, or that keep the model from moving to an older opset."""
    lacking = operator_without_kernel(model)
    if lacking is None:
        return set()
    return {
        node_name(node)
        for node in model.graph.all_nodes()
        if not node.domain
        and (node.op_type in {lacking, *_OTHER_MEANING} or not has_older_form(node, model.opset, model.opset - 1))
        and Definition().matches(node)
    }
