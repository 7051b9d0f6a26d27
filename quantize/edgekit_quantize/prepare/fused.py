"""Takes layers apart that ONNX Runtime's optimizer fused with what follows them, in files that it saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, home

MICROSOFT = "com.microsoft"
ACTIVATIONS = {"Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
"""The activations that a layer may end with, and their attributes, in the order of ``activation_params``."""
CLIP = "Clip"
"""One more activation; its two parameters are inputs of the standard operator."""


def split_fused(model: ir.Model) -> int:
    """Replace FusedConv by Conv, Add and the activation, and FusedGemm by Gemm and the activation; returns how many.

    The two are layers that no runtime computes with integers. A node whose activation is not known stays as it is.

    Args:
        model: Changed in place; its operator set is 11 or later, in which Clip has its limits as inputs.
    """
    names = Names(model.graph)
    count = 0
    for node in list(model.graph.all_nodes()):
        if node.domain == MICROSOFT and node.op_type in {"FusedConv", "FusedGemm"}:
            count += _split(node, names)
    return count


def _split(node: ir.Node, names: Names) -> bool:
    """Whether the node was replaced."""
    activation, parameters = _activation(node)
    known = (*ACTIVATIONS, CLIP)
    wanted = 2 if activation == CLIP else len(ACTIVATIONS.get(activation, ()))
    if activation and (activation not in known or len(parameters) != wanted):
        return False
    old = node.outputs[0]
    given = old.name
    old.name = names.fresh(f"{given}_fused")
    own = [attribute for name, attribute in node.attributes.items() if not name.startswith("activation")]
    inputs, added = node.inputs[:3], node.inputs[3:] if node.op_type == "FusedConv" else ()
    nodes = [ir.Node("", node.op_type.removeprefix("Fused"), inputs, own, num_outputs=1, name=node.name)]
    for value in filter(None, added):
        nodes.append(ir.node("Add", [nodes[-1].outputs[0], value], name=names.fresh(f"{node.name}_sum")))
    if activation:
        last, name = nodes[-1].outputs[0], names.fresh(f"{node.name}_activation")
        attributes = dict(zip(ACTIVATIONS.get(activation, ()), parameters, strict=False))
        limits = [_number(node, number, names) for number in parameters] if activation == CLIP else []
        nodes.append(ir.node(activation, [last, *limits], attributes, name=name))
    for each in nodes:
        each.outputs[0].type = old.type
        each.outputs[0].shape = old.shape
        each.outputs[0].name = names.fresh(f"{given}_{each.op_type}")
    nodes[-1].outputs[0].name = given
    graph = home(node)
    graph.insert_after(node, nodes)
    old.replace_all_uses_with(nodes[-1].outputs[0], replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return True


def _activation(node: ir.Node) -> tuple[str, Sequence[float]]:
    """The activation's name, "" if there is none, and its parameters."""
    name = node.attributes.get_string("activation", "")
    if node.op_type == "FusedConv":
        return name, node.attributes.get_floats("activation_params", ())
    given = (node.attributes.get_float(f"activation_{each}", None) for each in ACTIVATIONS.get(name, ()))
    return name, [number for number in given if number is not None]


def _number(node: ir.Node, number: float, names: Names) -> ir.Value:
    """A constant of the type that the layer computes with."""
    dtype = node.outputs[0].dtype or ir.DataType.FLOAT
    return add_initializer(home(node), names.fresh(f"{node.name}_limit"), np.asarray(number, dtype.numpy()))
