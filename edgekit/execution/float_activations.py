"""Models with operators in float32 in place of those in which ONNX Runtime rounds activations.

Such an operator rounds activations to 8 bits by their current range. A float32 build does not round them, and that
difference says nothing about the build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.execution.exact_products import with_blocks_in_floats
from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.model import Model, node_name

_DOMAIN = "com.microsoft"
_SCALES_AT, _ZEROS_AT = (8, 10), (9, 11)
"""Positions of the inputs of DynamicQuantizeLSTM with the scales and the zero points: each for the weights of inputs,
then for the weights of states."""


def with_activations_in_floats(model: Model) -> Model:
    """The model with MatMulNBits, DynamicQuantizeMatMul and DynamicQuantizeLSTM in float32; itself if it has none.

    DynamicQuantizeMatMul and DynamicQuantizeLSTM stay if their weights are not constant.

    Args:
        model: It is not changed.
    """
    changed = with_blocks_in_floats(model)
    if not any(_is_rounding(node) for node in changed.graph.all_nodes()):
        return changed
    graph_model = model.graph_model.clone() if changed is model else changed.graph_model
    for node in list(graph_model.graph.all_nodes()):
        graph = node.graph
        if not _is_rounding(node) or not isinstance(graph, ir.Graph):
            continue
        build = NodeBuilder(model.opset, f"{node_name(node)}/floats")
        results = _IN_FLOATS[node.op_type](node, build)
        if results is None:
            continue
        for value in build.initializers:
            graph.register_initializer(value)
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, list(node.outputs), results)
    return model.with_graph(graph_model)


def _is_rounding(node: ir.Node) -> bool:
    return node.domain == _DOMAIN and node.op_type in _IN_FLOATS


def _product(node: ir.Node, build: NodeBuilder) -> list[ir.Value] | None:
    weights = _dequantized(node, 1, 2, 3)
    if weights is None:
        return None
    result = build("MatMul", node.inputs[0], weights)
    bias = input_at(node, 4)
    return [result if bias is None else build("Add", result, bias)]


def _lstm(node: ir.Node, build: NodeBuilder) -> list[ir.Value] | None:
    weights = [
        _dequantized(node, place, scale, zero) for place, scale, zero in zip((1, 2), _SCALES_AT, _ZEROS_AT, strict=True)
    ]
    if weights[0] is None or weights[1] is None:
        return None
    turned = [np.ascontiguousarray(each.transpose(0, 2, 1)) for each in weights if each is not None]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    rest = [input_at(node, place) for place in range(3, 8)]
    return list(build.several(len(node.outputs), "LSTM", node.inputs[0], *turned, *rest, **attributes))


def _dequantized(node: ir.Node, place: int, scale_at: int, zero_at: int) -> np.ndarray | None:
    """The floats that stored weights represent, or None if the weights or their scales are not constant."""
    stored, scales, zeros = (constant_input(node, at) for at in (place, scale_at, zero_at))
    if stored is None or scales is None:
        return None
    numbers = stored.astype(np.float32)
    if zeros is not None:
        numbers = numbers - _along(zeros.astype(np.float32), numbers)
    return np.asarray(numbers * _along(scales, numbers), np.float32)


def _along(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Scales or zero points in a shape that fits the weights, [rows, columns] or [directions, rows, columns].

    There is one for all weights, one for each direction, or one for each column.
    """
    if numbers.ndim == 2 or table.size == 1:
        return table
    return table.reshape(len(numbers), 1, -1)


_IN_FLOATS: Mapping[str, Callable[[ir.Node, NodeBuilder], list[ir.Value] | None]] = {
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _product,
}
