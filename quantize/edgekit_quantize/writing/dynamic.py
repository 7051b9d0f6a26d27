"""Writes matrix products of integers whose activations are quantized in every run, which needs no samples."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, home
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.weights import matrix_weights


class DynamicWriter:
    """Writes products as MatMulInteger behind DynamicQuantizeLinear, followed by Cast and Mul with the scales.

    An activation that several products read is quantized once.

    Args:
        names: The names that are used in the model.
        sums_in_int16: See :func:`edgekit_quantize.integers.weights.matrix_weights`.
    """

    def __init__(self, names: Names, *, sums_in_int16: bool) -> None:
        self._names = names
        self._sums_in_int16 = sums_in_int16
        self._quantized: dict[tuple[str, ir.Graph], ir.Node] = {}
        self._matrices: dict[tuple[str, int], tuple[ir.Value, ir.Value, ir.Value]] = {}

    def multiply(self, layer: Layer) -> None:
        """Let a plain product (:attr:`Layer.is_plain_product`) multiply integers, with one scale per output."""
        output, graph = layer.output, home(layer.node)
        integers, scale, zero = self._activation(layer).outputs
        matrix, matrix_zero, steps = self._matrix(layer)
        product = self._node("MatMulInteger", [integers, matrix, zero, matrix_zero], f"{output.name}_int32")
        wide = self._node("Cast", [product.outputs[0]], f"{output.name}_float", {"to": ir.DataType.FLOAT.value})
        both = self._node("Mul", [scale, steps], f"{output.name}_scale")
        result = self._node("Mul", [wide.outputs[0], both.outputs[0]], f"{output.name}_scaled")
        graph.insert_before(layer.node, [product, wide, both, result])
        if layer.bias is not None:
            result = self._node("Add", [result.outputs[0], layer.bias], f"{output.name}_sum")
            graph.insert_before(layer.node, result)
        result.outputs[0].shape, result.outputs[0].type = output.shape, output.type
        output.replace_all_uses_with(result.outputs[0], replace_graph_outputs=True)
        graph.remove(layer.node, safe=True)
        result.outputs[0].name, output.name = output.name, None

    def params(self, weights: np.ndarray, axis: int) -> QParams:
        """The parameters of a product's weights, with one scale for each output along ``axis``."""
        return matrix_weights(weights, TYPES["int8"], axis, sums_in_int16=self._sums_in_int16)

    def _matrix(self, layer: Layer) -> tuple[ir.Value, ir.Value, ir.Value]:
        """The layer's weights as integers with inputs first, their zero point, and their scales; written once."""
        name, graph = layer.weight.name or "", home(layer.weight)
        key = name, layer.channel_axis
        if key not in self._matrices:
            weights = layer.weights() if layer.channel_axis == 1 else np.ascontiguousarray(layer.weights().T)
            params = self.params(weights, 1)
            self._matrices[key] = (
                add_initializer(graph, self._names.fresh(f"{name}_int8"), params.quantize(weights)),
                add_initializer(graph, self._names.fresh(f"{name}_zero_point"), np.zeros((), np.int8)),
                add_initializer(graph, self._names.fresh(f"{name}_scale"), params.scale),
            )
        return self._matrices[key]

    def _activation(self, layer: Layer) -> ir.Node:
        name, graph = layer.data.name or "", home(layer.node)
        if (name, graph) not in self._quantized:
            node = ir.node("DynamicQuantizeLinear", [layer.data], num_outputs=3)
            for value, role in zip(node.outputs, ("quantized", "scale", "zero_point"), strict=True):
                value.name = self._names.fresh(f"{name}_{role}")
            producer = layer.data.producer()
            if producer is None or producer.graph is not graph:
                graph.insert_before(graph[0], node)
            else:
                graph.insert_after(producer, node)
            self._quantized[name, graph] = node
        return self._quantized[name, graph]

    def _node(
        self, op_type: str, inputs: list[ir.Value], output: str, attributes: dict[str, int] | None = None
    ) -> ir.Node:
        node = ir.node(op_type, inputs, attributes or {}, num_outputs=1)
        node.outputs[0].name = self._names.fresh(output)
        return node
