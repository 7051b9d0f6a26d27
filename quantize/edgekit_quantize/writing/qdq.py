"""Inserts QuantizeLinear and DequantizeLinear nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.graph.nodes import Names, add_initializer, constant
from edgekit_quantize.integers.qparams import QParams

LARGEST_BIAS = 2**31 - 1


class QDQWriter:
    """Inserts Q/DQ pairs into one graph; a tensor that is read more than once is quantized once.

    Nodes get no names and values no shapes, which their neighbours tell: in a small model they take as much room as the
    weights.

    Args:
        graph: The main graph, changed in place.
        names: The names that are taken in it.
    """

    def __init__(self, graph: ir.Graph, names: Names) -> None:
        self.graph, self.names = graph, names
        self._dequantized: dict[str, ir.Value] = {}
        self._itself: dict[str, ir.Value] = {}
        self._pairs: dict[str, tuple[ir.Node, ir.Node]] = {}
        self._weights: dict[tuple[str, int | None], ir.Value] = {}

    def activation(
        self, value: ir.Value, params: QParams, smoothing: Smoothing | None = None, *, shifted: bool = False
    ) -> ir.Value:
        """The tensor after Q/DQ; readers have to be pointed to it.

        Args:
            value: The tensor.
            params: How it is quantized once it is smooth.
            smoothing: What it is divided by on the way.
            shifted: Whether the zero point is not taken off again (:mod:`edgekit_quantize.integers.zero_points`).
        """
        name = value.name or ""
        if name not in self._dequantized:
            scale = add_initializer(self.graph, self.names.fresh(f"{name}_scale"), params.scale)
            zeros = params.zero_point.astype(params.dtype.name)
            zero = last = add_initializer(self.graph, self.names.fresh(f"{name}_zero_point"), zeros)
            if shifted and zeros.any():
                last = add_initializer(self.graph, self.names.fresh(f"{name}_no_zero_point"), np.zeros_like(zeros))
            quantized = ir.Value(name=self.names.fresh(f"{name}_quantized"))
            smooth = [] if smoothing is None else [self._divide(value, smoothing)]
            source = smooth[0].outputs[0] if smooth else value
            dequantized = ir.Value(name=self.names.fresh(f"{name}_dequantized"))
            nodes = [
                *smooth,
                ir.node("QuantizeLinear", [source, scale, zero], outputs=[quantized]),
                ir.node("DequantizeLinear", [quantized, scale, last], outputs=[dequantized]),
            ]
            producer = value.producer()
            if producer is None:
                self.graph.insert_before(self.graph[0], nodes)
            else:
                self.graph.insert_after(producer, nodes)
            self._dequantized[name] = dequantized
            self._pairs[name] = (nodes[-2], nodes[-1])
            if last is zero:
                self._itself[name] = dequantized
        return self._dequantized[name]

    def itself(self, value: ir.Value) -> ir.Value:
        """What :meth:`activation` has quantized, its zero point taken off in any case."""
        name = value.name or ""
        if name not in self._itself:
            quantize, shifted = self._pairs[name]
            self._itself[name] = ir.Value(name=self.names.fresh(f"{name}_itself"))
            inputs = [quantize.outputs[0], *quantize.inputs[1:]]
            self.graph.insert_after(shifted, ir.node("DequantizeLinear", inputs, outputs=[self._itself[name]]))
        return self._itself[name]

    def _divide(self, value: ir.Value, smoothing: Smoothing) -> ir.Node:
        rank = 1 if smoothing.axis == -1 or value.shape is None else len(value.shape)
        inverse = add_initializer(self.graph, self.names.fresh(f"{value.name}_smoothing"), 1 / smoothing.along(rank))
        output = ir.Value(name=self.names.fresh(f"{value.name}_smooth"))
        return ir.node("Mul", [value, inverse], outputs=[output])

    def weight(self, value: ir.Value, params: QParams, integers: np.ndarray) -> ir.Value:
        """A float constant as ``integers`` behind DequantizeLinear; shared constants are written once."""
        key = (value.name or "", params.axis)
        if key not in self._weights:
            self._weights[key] = self._constant(value, integers, params.scale, params.axis, params.dtype.name)
        return self._weights[key]

    def bias(self, value: ir.Value, scale: np.ndarray) -> ir.Value | None:
        """A bias as int32 with the product of the input's and the weights' scales; None where it does not fit."""
        array = constant(value)
        if array is None or array.ndim != 1:
            return None
        steps = np.rint(array.astype(np.float64) / scale)
        if np.abs(steps).max(initial=0) > LARGEST_BIAS:
            return None
        scales = np.broadcast_to(scale, array.shape).astype(np.float32)
        return self._constant(value, steps.astype(np.int32), scales, 0, "int32")

    def _constant(
        self, value: ir.Value, integers: np.ndarray, scale: np.ndarray, axis: int | None, dtype: str
    ) -> ir.Value:
        name = value.name or ""
        kind = ir.DataType[dtype.upper()]
        inputs = [
            add_initializer(self.graph, self.names.fresh(f"{name}_{dtype}"), integers, kind),
            add_initializer(self.graph, self.names.fresh(f"{name}_scale"), scale),
        ]
        if dtype != "int32":  # whose zero point is always 0, and which some runtimes take without one only
            zeros = np.zeros(scale.shape, integers.dtype)
            inputs.append(add_initializer(self.graph, self.names.fresh(f"{name}_zero_point"), zeros, kind))
        output = ir.Value(name=self.names.fresh(f"{name}_dequantized"))
        attributes: dict[str, int] = {} if axis is None else {"axis": axis}
        node = ir.node("DequantizeLinear", inputs, attributes, outputs=[output])
        self.graph.insert_before(self.graph[0], node)
        return output
