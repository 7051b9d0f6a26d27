"""Writes LSTM nodes whose inputs and states are quantized at every step, by an operator of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.model import node_name
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, integer, is_standard
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.stored_weights import FEWEST
from edgekit_quantize.integers.weights import matrix_weights

DOMAIN = "com.microsoft"
PEEPHOLES = 8
"""The number of inputs of the standard operator; the scales and zero points of both matrices follow them."""


def quantize_lstms(model: ir.Model, *, sums_in_int16: bool) -> list[str]:
    """Replace LSTM nodes with constant weights, in subgraphs too, by ``com.microsoft.DynamicQuantizeLSTM``.

    Weights get one scale per output of each gate. ONNX Runtime's ``docs/ContribOperators.md`` describes the operator.

    Args:
        model: Changed in place.
        sums_in_int16: See :func:`edgekit_quantize.integers.weights.matrix_weights`.

    Returns:
        The names of the replaced nodes.
    """
    names = Names(model.graph)
    replaced = []
    for node in list(model.graph.all_nodes()):
        if _fits(node):
            _replace(model.graph, node, names, sums_in_int16=sums_in_int16)
            replaced.append(node_name(node))
    if replaced:
        model.opset_imports.setdefault(DOMAIN, 1)
    return replaced


def _fits(node: ir.Node) -> bool:
    """Whether the node is an LSTM with sequences along the first axis and large constant weights."""
    if not is_standard(node, "LSTM") or integer(node, "layout", 0):
        return False
    weights = [constant(node.inputs[index]) for index in (1, 2)]
    return all(array is not None and array.dtype == np.float32 and array.size >= FEWEST for array in weights)


def _replace(graph: ir.Graph, node: ir.Node, names: Names, *, sums_in_int16: bool) -> None:
    inputs = [*node.inputs, *[None] * (PEEPHOLES - len(node.inputs))]
    for index in (1, 2):
        value = inputs[index]
        weights = constant(value)
        if value is None or weights is None:
            raise ValueError(f"the weights of {node.name!r} are not constant")
        integers, scales = [], []
        for direction in weights:
            params = matrix_weights(direction, TYPES["int8"], 0, sums_in_int16=sums_in_int16)
            integers.append(params.quantize(direction).T)
            scales.append(params.scale)
        inputs[index] = add_initializer(graph, names.fresh(f"{value.name}_int8"), np.ascontiguousarray(integers))
        scale = np.stack(scales)
        inputs.append(add_initializer(graph, names.fresh(f"{value.name}_scale"), scale))
        zero = np.zeros(scale.shape, np.int8)
        inputs.append(add_initializer(graph, names.fresh(f"{value.name}_zero_point"), zero))
    attributes = {name: value for name, value in node.attributes.items() if name != "layout"}
    quantized = ir.node(
        "DynamicQuantizeLSTM", inputs, attributes, domain=DOMAIN, num_outputs=len(node.outputs), name=node.name
    )
    place = node.graph
    if place is None:
        raise ValueError(f"{node.name!r} stands in no graph")
    ir.convenience.replace_nodes_and_values(
        place, node, [node], [quantized], list(node.outputs), list(quantized.outputs)
    )
