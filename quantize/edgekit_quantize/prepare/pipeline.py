"""The steps of preparation in their order."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import IdentityEliminationPass, LiftConstantsToInitializersPass

from edgekit_quantize.graph import drop_unused_initializers
from edgekit_quantize.prepare.batchnorm import fold_batchnorm
from edgekit_quantize.prepare.opset import at_least_opset


PER_CHANNEL_OPSET = 13
"""From this version on DequantizeLinear takes one scale a channel."""


def prepared(model: ir.Model) -> ir.Model:
    """A copy of the model that computes the same and quantizes better.

    Raises:
        edgekit.errors.InputError: The model's opset is too old and cannot be upgraded.
    """
    model = at_least_opset(model.clone(), PER_CHANNEL_OPSET)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    IdentityEliminationPass()(model)
    _name_nodes(model.graph)
    fold_batchnorm(model.graph)
    drop_unused_initializers(model.graph)
    return model


def _name_nodes(graph: ir.Graph) -> None:
    """Give every node a name that no other has: layers are spoken of by name."""
    seen: set[str] = set()
    for node in graph.all_nodes():
        wish = node.name or node.outputs[0].name or node.op_type
        name, count = wish, 1
        while name in seen:
            name, count = f"{wish}_{count}", count + 1
        seen.add(name)
        node.name = name
