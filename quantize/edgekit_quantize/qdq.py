"""Writes a plan into the graph as QuantizeLinear and DequantizeLinear nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph import Names, add_initializer, constant, drop_unused_initializers
from edgekit_quantize.layers import Layer
from edgekit_quantize.placement import Plan
from edgekit_quantize.qparams import TYPES, QParams
from edgekit_quantize.weights import symmetric_weights

LARGEST_BIAS = 2**31 - 1


class QDQWriter:
    """Inserts Q/DQ pairs into one graph; a tensor that is read more than once is quantized once."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.names = Names(graph)
        self._dequantized: dict[str, ir.Value] = {}
        self._weights: dict[tuple[str, int | None, int], tuple[ir.Value, QParams]] = {}

    def activation(self, value: ir.Value, params: QParams) -> ir.Value:
        """The tensor after Q/DQ; readers have to be pointed to it."""
        name = value.name or ""
        if name not in self._dequantized:
            scale, zero = self._parameters(name, params)
            quantized = self._value(f"{name}_quantized", value, ir.DataType[params.dtype.name.upper()])
            dequantized = self._value(f"{name}_dequantized", value, ir.DataType.FLOAT)
            nodes = [
                ir.node("QuantizeLinear", [value, scale, zero], outputs=[quantized], name=quantized.name),
                ir.node("DequantizeLinear", [quantized, scale, zero], outputs=[dequantized], name=dequantized.name),
            ]
            producer = value.producer()
            if producer is None:
                self.graph.insert_before(self.graph[0], nodes)
            else:
                self.graph.insert_after(producer, nodes)
            self._dequantized[name] = dequantized
        return self._dequantized[name]

    def weight(self, value: ir.Value, params: QParams, integers: np.ndarray | None = None) -> ir.Value:
        """A constant as integers behind DequantizeLinear.

        Args:
            value: The float constant.
            params: Its scales.
            integers: What to store; None rounds to nearest.
        """
        key = (value.name or "", params.axis, params.block)
        if key not in self._weights:
            array = constant(value)
            if array is None:
                raise ValueError(f"{value.name!r} is not constant")
            stored = params.quantize(array) if integers is None else integers
            self._weights[key] = (self._dequantize_constant(value, stored, params), params)
        return self._weights[key][0]

    def bias(self, value: ir.Value, scale: np.ndarray) -> ir.Value | None:
        """A bias as int32 with the product of the input's and the weights' scales; None where it does not fit."""
        array = constant(value)
        if array is None or array.ndim != 1:
            return None
        steps = np.rint(array.astype(np.float64) / scale)
        if np.abs(steps).max(initial=0) > LARGEST_BIAS:
            return None
        params = QParams(
            np.broadcast_to(scale, array.shape).astype(np.float32),
            np.zeros(array.shape, np.int32),
            TYPES["int8"],
            axis=0,
        )
        return self._dequantize_constant(value, steps.astype(np.int32), params)

    def _dequantize_constant(self, value: ir.Value, integers: np.ndarray, params: QParams) -> ir.Value:
        name = value.name or ""
        scale = add_initializer(self.graph, self.names.fresh(f"{name}_scale"), params.scale)
        dtype = ir.DataType.INT32 if integers.dtype == np.int32 else ir.DataType[params.dtype.name.upper()]
        inputs = [add_initializer(self.graph, self.names.fresh(f"{name}_{dtype.name.lower()}"), integers, dtype), scale]
        if dtype is not ir.DataType.INT32:
            zeros = params.zero_point.astype(integers.dtype)
            inputs.append(add_initializer(self.graph, self.names.fresh(f"{name}_zero_point"), zeros, dtype))
        output = self._value(f"{name}_dequantized", value, ir.DataType.FLOAT)
        attributes: dict[str, int] = {} if params.axis is None else {"axis": params.axis}
        if params.block:
            attributes["block_size"] = params.block
        node = ir.node("DequantizeLinear", inputs, attributes, outputs=[output], name=output.name)
        self.graph.insert_before(self.graph[0], node)
        return output

    def _parameters(self, name: str, params: QParams) -> tuple[ir.Value, ir.Value]:
        zero = params.zero_point.astype(params.dtype.name)
        return (
            add_initializer(self.graph, self.names.fresh(f"{name}_scale"), params.scale),
            add_initializer(self.graph, self.names.fresh(f"{name}_zero_point"), zero),
        )

    def _value(self, wish: str, like: ir.Value, dtype: ir.DataType) -> ir.Value:
        return ir.Value(name=self.names.fresh(wish), shape=like.shape, type=ir.TensorType(dtype))


def write_static(plan: Plan, graph: ir.Graph, params: Mapping[str, QParams]) -> None:
    """Quantize the graph as planned.

    Args:
        plan: What to quantize; its nodes and values belong to ``graph``.
        graph: The graph, changed in place.
        params: Parameters of every tensor that the plan observes.
    """
    writer = QDQWriter(graph)
    chosen = {name: params[plan.range_from.get(name, name)] for name in plan.tensors}
    uses = {name: tuple(value.uses()) for name, value in plan.tensors.items()}
    readers = {id(layer.node) for layer in plan.layers} | {id(node) for node in (*plan.products, *plan.moved)}
    for name, value in plan.tensors.items():
        quantized = writer.activation(value, chosen[name])
        for node, index in uses[name]:
            if name in plan.whole or id(node) in readers:
                node.replace_input_with(index, quantized)
    for layer in plan.layers:
        _write_weights(writer, layer, plan, params)
    drop_unused_initializers(graph)


def _write_weights(writer: QDQWriter, layer: Layer, plan: Plan, params: Mapping[str, QParams]) -> None:
    weight = layer.weight
    scales = symmetric_weights(layer.weights(), TYPES[plan.settings.weights], layer.channel_axis)
    bias = layer.bias
    data = _source_of(layer.data)
    layer.node.replace_input_with(layer.weight_index, writer.weight(weight, scales))
    if plan.settings.bias == "int32" and bias is not None and data is not None:
        source = params[plan.range_from.get(data, data)]
        integer = writer.bias(bias, source.scale * scales.scale)
        if integer is not None:
            layer.node.replace_input_with(2, integer)


def _source_of(dequantized: ir.Value) -> str | None:
    """The name of the float tensor behind a Q/DQ pair."""
    value: ir.Value | None = dequantized
    for _ in range(2):
        node = value.producer() if value is not None else None
        value = node.inputs[0] if node is not None else None
    return value.name if value is not None else None


