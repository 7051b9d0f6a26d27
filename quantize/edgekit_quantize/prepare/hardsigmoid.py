"""Writes HardSigmoid behind a layer as Clip, which runtimes fuse into the layer."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import layer_of
from edgekit_quantize.graph.nodes import Names, add_initializer, home, is_standard, only_consumer
from edgekit_quantize.graph.parameters import can_rescale

ALPHA, BETA = 0.2, 0.5
"""The operator's defaults."""
CLIP_OPSET = 11
"""From this version of the operator set on, Clip takes its limits as inputs."""


def clip_hardsigmoids(model: ir.Model) -> int:
    """Replace ``HardSigmoid(x) = max(0, min(1, alpha * x + beta))`` by Mul, Add and Clip; returns how many.

    Only if it alone reads the output of a layer into whose weights and bias Mul and Add can be folded;
    :func:`edgekit_quantize.prepare.affine.fold_forward` folds them.
    """
    if model.opset_imports.get("", 0) < CLIP_OPSET:
        return 0
    graph = model.graph
    names = Names(graph)
    count = 0
    for node in list(graph.all_nodes()):
        data = node.inputs[0] if is_standard(node, "HardSigmoid") else None
        producer = data.producer() if data is not None else None
        layer = layer_of(producer) if producer is not None else None
        if data is None or layer is None or not can_rescale(layer) or only_consumer(data) is not node:
            continue
        dtype = layer.weights().dtype
        alpha, beta = (
            node.attributes[key].as_float() if key in node.attributes else default
            for key, default in (("alpha", ALPHA), ("beta", BETA))
        )
        numbers = {"alpha": alpha, "beta": beta, "low": 0.0, "high": 1.0}
        constants = {
            role: add_initializer(home(node), names.fresh(f"{node.name}_{role}"), np.asarray(number, dtype))
            for role, number in numbers.items()
        }
        old = node.outputs[0]
        scaled, shifted = (ir.Value(name=names.fresh(f"{old.name}_{what}")) for what in ("scaled", "shifted"))
        for value in (scaled, shifted):
            value.shape, value.type = old.shape, old.type
        output = ir.Value(name=old.name, shape=old.shape, type=old.type)
        old.name = names.fresh(f"{old.name}_hardsigmoid")
        nodes = [
            ir.node("Mul", [data, constants["alpha"]], outputs=[scaled], name=f"{node.name}_scaled"),
            ir.node("Add", [scaled, constants["beta"]], outputs=[shifted], name=f"{node.name}_shifted"),
            ir.node("Clip", [shifted, constants["low"], constants["high"]], outputs=[output], name=node.name),
        ]
        home(node).insert_after(node, nodes)
        old.replace_all_uses_with(output, replace_graph_outputs=True)
        home(node).remove(node, safe=True)
        count += 1
    return count
