"""Matrix products of integers whose activations are quantized anew for every input, which needs no samples."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph import Names, add_initializer
from edgekit_quantize.layers import Layer
from edgekit_quantize.qparams import TYPES
from edgekit_quantize.weights import symmetric_weights


def fits(layer: Layer) -> bool:
    """Whether the layer is a plain product of an activation with a constant matrix."""
    return layer.kind == "MatMul" and layer.data_index == 0 and layer.weights().ndim == 2


class DynamicWriter:
    """Writes ``DequantizeLinear(MatMulInteger(DynamicQuantizeLinear(x), w))``, with an activation quantized once.

    Args:
        graph: The main graph, changed in place.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = Names(graph)
        self._quantized: dict[str, ir.Node] = {}

    def multiply(self, layer: Layer) -> None:
        """Let a layer that :func:`fits` multiply integers; weights have one scale an output."""
        weights = layer.weights()
        params = symmetric_weights(weights, TYPES["int8"], layer.channel_axis)
        name, output = layer.weight.name or "", layer.output
        integers, scale, zero = self._activation(layer).outputs
        matrix = add_initializer(self._graph, self._names.fresh(f"{name}_int8"), params.quantize(weights))
        matrix_zero = add_initializer(self._graph, self._names.fresh(f"{name}_zero_point"), np.zeros((), np.int8))
        steps = add_initializer(self._graph, self._names.fresh(f"{name}_scale"), params.scale)
        product = self._node("MatMulInteger", [integers, matrix, zero, matrix_zero], f"{output.name}_int32")
        wide = self._node("Cast", [product.outputs[0]], f"{output.name}_float", {"to": ir.DataType.FLOAT.value})
        both = self._node("Mul", [scale, steps], f"{output.name}_scale")
        result = self._node("Mul", [wide.outputs[0], both.outputs[0]], f"{output.name}_scaled")
        self._graph.insert_before(layer.node, [product, wide, both, result])
        result.outputs[0].shape, result.outputs[0].type = output.shape, output.type
        output.replace_all_uses_with(result.outputs[0], replace_graph_outputs=True)
        self._graph.remove(layer.node, safe=True)
        result.outputs[0].name, output.name = output.name, None

    def _activation(self, layer: Layer) -> ir.Node:
        name = layer.data.name or ""
        if name not in self._quantized:
            node = ir.node("DynamicQuantizeLinear", [layer.data], num_outputs=3)
            for value, role in zip(node.outputs, ("quantized", "scale", "zero_point"), strict=True):
                value.name = self._names.fresh(f"{name}_{role}")
            producer = layer.data.producer()
            if producer is None:
                self._graph.insert_before(self._graph[0], node)
            else:
                self._graph.insert_after(producer, node)
            self._quantized[name] = node
        return self._quantized[name]

    def _node(
        self, op_type: str, inputs: list[ir.Value], output: str, attributes: dict[str, int] | None = None
    ) -> ir.Node:
        node = ir.node(op_type, inputs, attributes or {}, num_outputs=1)
        node.outputs[0].name = self._names.fresh(output)
        return node
