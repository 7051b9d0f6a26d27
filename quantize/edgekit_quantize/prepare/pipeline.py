"""Prepares a model for quantization, step by step."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, RemoveInitializersFromInputsPass

from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes
from edgekit.model import Model, name_nodes
from edgekit_quantize.graph.nodes import bypass, is_standard
from edgekit_quantize.prepare.affine import fold_backward, fold_forward, shifts_to_convolutions
from edgekit_quantize.prepare.batchnorm import fold_batchnorm
from edgekit_quantize.prepare.constants import fold_constants
from edgekit_quantize.prepare.expand import drop_expands
from edgekit_quantize.prepare.fused import split_fused
from edgekit_quantize.prepare.hardsigmoid import clip_hardsigmoids
from edgekit_quantize.prepare.hardswish import fuse_hardswish
from edgekit_quantize.prepare.opset import modern
from edgekit_quantize.prepare.reductions import keep_reduced_axes
from edgekit_quantize.prepare.scopes import name_values, sink_constants


def prepared(model: ir.Model, *, padded_shifts_as_convolutions: bool = False) -> ir.Model:
    """A copy of the model that computes the same and quantizes better.

    Args:
        model: The float model; it is not changed.
        padded_shifts_as_convolutions: See :func:`shifts_to_convolutions`.

    Raises:
        edgekit.errors.InputError: The model's opset is too old and cannot be upgraded.
    """
    model = modern(model.clone())
    RemoveInitializersFromInputsPass()(model)  # before IR version 4 weights had to be inputs
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    model = _with_shapes(model)
    graph = model.graph
    _drop_identities(graph)
    name_nodes(model)
    name_values(graph)
    split_fused(model)
    while fold_constants(model):  # with the new constants, more shapes may be inferred
        model = _with_shapes(model)
    graph = model.graph
    drop_expands(graph)
    fold_batchnorm(graph)
    fold_backward(graph)
    fuse_hardswish(model)
    clip_hardsigmoids(model)
    keep_reduced_axes(model)
    fold_forward(graph)
    if padded_shifts_as_convolutions:
        shifts_to_convolutions(graph)
    drop_unused_initializers(graph)
    name_values(graph)
    sink_constants(graph)
    return model


def _with_shapes(model: ir.Model) -> ir.Model:
    try:
        return infer_shapes(Model(model), strict=False).graph_model
    except ContradictionError:  # the runtime may be less strict; steps that need a missing shape then do nothing
        return model


def _drop_identities(graph: ir.Graph) -> None:
    """Remove Identity nodes; those that name an output of their graph stay."""
    for node in list(graph.all_nodes()):
        source = node.inputs[0] if is_standard(node, "Identity") else None
        if source is not None and not node.outputs[0].is_graph_output():
            bypass(node, source)
