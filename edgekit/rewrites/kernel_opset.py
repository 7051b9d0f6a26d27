"""Moves models to a version of the standard operators that ONNX Runtime has kernels for."""

from __future__ import annotations

from edgekit.execution.kernel_versions import without_kernel
from edgekit.execution.reference import is_executable
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.definition import Definition
from edgekit.rewrites.opset import lowered

_OLDEST = 21
"""The oldest opset that a model is moved to. Before it GroupNormalization reads a scale for each group, not for each
channel, which the number of its inputs does not tell."""
_OTHER_MEANING = frozenset({"Attention"})
"""Operators whose older versions compute something else from the same inputs and attributes."""


def in_kernels_opset(model: Model) -> Model:
    """Returns the model in a form for which ONNX Runtime has kernels; unchanged if it has them, or if there is none.

    That is an older opset in which the nodes are the same, such as 27 for a DequantizeLinear of opset 28, of which only
    element types are new. Failing that, operators are replaced by their definitions in the standard: ONNX Runtime does
    that as well, but not if the standard has changed an operator of the definition since.
    """
    if not without_kernel(model) or is_executable(model):
        return model
    found = _lowered(model)
    if found is not None:
        return found
    expanded = rewritten(infer_shapes(model, strict=False), _defined_without_kernel, [Definition()]).model
    if expanded.node_count == model.node_count:
        return model
    return expanded if is_executable(expanded) else _lowered(expanded) or model


def _lowered(model: Model) -> Model | None:
    """The model in the newest older opset in which ONNX Runtime executes it; None if there is none."""
    if any(node.op_type in _OTHER_MEANING for node in model.graph.all_nodes()):
        return None
    for opset in range(model.opset - 1, _OLDEST - 1, -1):
        older = lowered(model, opset)
        if older is model:
            return None
        undefined = [node for node in without_kernel(older) if not Definition().matches(node)]
        if not undefined and is_executable(older):
            return older
    return None


def _defined_without_kernel(model: Model) -> set[str]:
    return {node_name(node) for node in without_kernel(model) if Definition().matches(node)}
