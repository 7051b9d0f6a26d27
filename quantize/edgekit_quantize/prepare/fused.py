"""Takes layers apart that ONNX Runtime's optimizer fused with what follows them, in files that it saved."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError
from edgekit.rewrites.microsoft.fused_products import ActivatedConv, ActivatedGemm
from edgekit_quantize.graph.nodes import Names, home

SPLITS = {(each.domain, *each.op_types): each for each in (ActivatedConv(), ActivatedGemm())}


def split_fused(model: ir.Model) -> int:
    """Replace FusedConv by Conv, Add and the activation, and FusedGemm by Gemm and the activation; returns how many.

    The two are layers that no runtime computes with integers. A node whose activation is not known stays as it is.

    Args:
        model: Changed in place.
    """
    names = Names(model.graph)
    opset = model.opset_imports[""]
    return sum(_split(node, opset, names) for node in list(model.graph.all_nodes()))


def _split(node: ir.Node, opset: int, names: Names) -> bool:
    """Whether the node was replaced."""
    split = SPLITS.get((node.domain, node.op_type))
    if split is None:
        return False
    build = NodeBuilder(opset, names.fresh(f"{node.name}/apart"))
    try:
        (made,) = split.replacement(node, build)
    except InapplicableError:
        return False
    graph, old = home(node), node.outputs[0]
    for value in build.initializers:
        graph.register_initializer(value)
    for each in build.nodes:
        each.outputs[0].type, each.outputs[0].shape = old.type, old.shape
    build.nodes[0].name = node.name
    ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [old], [made])
    return True
