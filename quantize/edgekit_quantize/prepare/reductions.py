"""Writes reductions in a form that runtimes compute correctly with integers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home, integer, is_standard

AXES_INPUT_OPSET = 18
"""From this version of the operator set on, ReduceMax takes its axes as an input."""
SQUEEZE_INPUT_OPSET = 13
"""From this version of the operator set on, Squeeze takes its axes as an input."""


def keep_reduced_axes(model: ir.Model) -> int:
    """Replace every ReduceMax that drops axes by one that keeps them, followed by Squeeze; returns how many.

    OpenVINO 2026.4's CPU plugin computes wrong results if it moves the scales of integers through a ReduceMax that
    drops axes: all of the result is wrong for a network of a convolution, the reduction and a matrix product in
    integers.
    """
    opset = model.opset_imports.get("", 0)
    if opset < SQUEEZE_INPUT_OPSET:
        return 0
    names = Names(model.graph)
    count = 0
    for node in list(model.graph.all_nodes()):
        axes = _axes(node, opset) if is_standard(node, "ReduceMax") else None
        if axes is None or integer(node, "keepdims", 1):
            continue
        old = node.outputs[0]
        kept = ir.Value(name=names.fresh(f"{old.name}_kept"), type=old.type)
        graph = home(node)
        dropped = add_initializer(graph, names.fresh(f"{node.name}_axes"), np.asarray(axes, np.int64))
        attributes = [value for name, value in node.attributes.items() if name != "keepdims"]
        output = ir.Value(name=old.name, shape=old.shape, type=old.type)
        old.name = names.fresh(f"{old.name}_reduced")
        reduction = ir.Node(
            "", node.op_type, node.inputs, [*attributes, ir.AttrInt64("keepdims", 1)], outputs=[kept], name=node.name
        )
        squeeze = ir.node("Squeeze", [kept, dropped], outputs=[output], name=names.fresh(f"{node.name}_squeeze"))
        graph.insert_after(node, [reduction, squeeze])
        old.replace_all_uses_with(output, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        count += 1
    return count


def _axes(node: ir.Node, opset: int) -> list[int] | None:
    """The axes that a ReduceMax reduces; None if they are not known, or not given, so that all are reduced."""
    if opset < AXES_INPUT_OPSET:
        attribute = node.attributes.get("axes")
        return None if attribute is None else list(attribute.as_ints())
    array = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None or not array.size else [int(axis) for axis in array]
