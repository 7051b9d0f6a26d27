"""Writes what an activation's zero point adds to a padded convolution as a constant behind the convolution."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home
from edgekit_quantize.integers.zero_points import ShiftMap

BIAS = 2
"""The index of a convolution's bias."""


def add_map(layer: Layer, correction: ShiftMap, names: Names) -> None:
    """Add the correction and the layer's bias behind the layer.

    Only the distinct parts of the map are stored. Gather repeats them, which runtimes compute once, when they load the
    model.

    Args:
        layer: The convolution; its graph is changed in place.
        correction: The correction.
        names: The names that are used in the model.
    """
    graph, output = home(layer.node), layer.output
    distinct = correction.distinct
    bias = constant(layer.bias)
    if bias is not None:
        distinct = distinct + bias.reshape(1, -1, *[1] * len(correction.places))
        layer.node.resize_inputs(BIAS)
    name = names.fresh(f"{output.name}_shift")
    value = add_initializer(graph, name, distinct.astype(np.float32))
    nodes = []
    for axis, places in enumerate(correction.places, 2):
        if len(places) != distinct.shape[axis]:
            indices = add_initializer(graph, names.fresh(f"{name}_places"), places.astype(np.int64))
            nodes.append(ir.node("Gather", [value, indices], {"axis": axis}))
            value = nodes[-1].outputs[0]
            value.name = names.fresh(f"{name}_map")
    added = ir.node("Add", [output, value])
    behind = added.outputs[0]
    behind.name, behind.shape, behind.type = names.fresh(f"{output.name}_shifted"), output.shape, output.type
    ir.convenience.replace_all_uses_with(output, behind)
    added.replace_input_with(0, output)
    graph.insert_after(layer.node, [*nodes, added])
