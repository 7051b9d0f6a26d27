"""Matrix products of integers whose activations are quantized anew for every input, which needs no samples."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights


class DynamicWriter:
    """Writes ``DequantizeLinear(MatMulInteger(DynamicQuantizeLinear(x), w))``, with an activation quantized once.

    Args:
        graph: The main graph, changed in place.
        names: The names that are taken in it.
    """

    def __init__(self, graph: ir.Graph, names: Names) -> None:
        self._graph, self._names = graph, names
        self._quantized: dict[str, ir.Node] = {}
        self._matrices: dict[tuple[str, int], tuple[ir.Value, ir.Value, ir.Value]] = {}

    def multiply(self, layer: Layer) -> None:
        """Let a plain product (:attr:`Layer.is_plain_product`) multiply integers; weights have one scale an output."""
        output = layer.output
        integers, scale, zero = self._activation(layer).outputs
        matrix, matrix_zero, steps = self._matrix(layer)
        product = self._node("MatMulInteger", [integers, matrix, zero, matrix_zero], f"{output.name}_int32")
        wide = self._node("Cast", [product.outputs[0]], f"{output.name}_float", {"to": ir.DataType.FLOAT.value})
        both = self._node("Mul", [scale, steps], f"{output.name}_scale")
        result = self._node("Mul", [wide.outputs[0], both.outputs[0]], f"{output.name}_scaled")
        self._graph.insert_before(layer.node, [product, wide, both, result])
        if layer.bias is not None:
            result = self._node("Add", [result.outputs[0], layer.bias], f"{output.name}_sum")
            self._graph.insert_before(layer.node, result)
        result.outputs[0].shape, result.outputs[0].type = output.shape, output.type
        output.replace_all_uses_with(result.outputs[0], replace_graph_outputs=True)
        self._graph.remove(layer.node, safe=True)
        result.outputs[0].name, output.name = output.name, None

    def _matrix(self, layer: Layer) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The layer's weights as integers with inputs first, their zero point, and their scales; written once."""
        name = layer.weight.name or ""
        key = name, layer.channel_axis
        if key not in self._matrices:
            weights = layer.weights() if layer.channel_axis == 1 else np.ascontiguousarray(layer.weights().T)
            params = symmetric_weights(weights, TYPES["int8"], 1)
            self._matrices[key] = (
                add_initializer(self._graph, self._names.fresh(f"{name}_int8"), params.quantize(weights)),
                add_initializer(self._graph, self._names.fresh(f"{name}_zero_point"), np.zeros((), np.int8)),
                add_initializer(self._graph, self._names.fresh(f"{name}_scale"), params.scale),
            )
        return self._matrices[key]

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
