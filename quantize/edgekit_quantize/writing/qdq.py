"""Inserts QuantizeLinear and DequantizeLinear nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home
from edgekit_quantize.integers.qparams import QParams

LARGEST_BIAS = 2**31 - 1


class QDQWriter:
    """Inserts Q/DQ pairs into one model; a tensor that is read several times in a graph is quantized once there.

    Pairs are inserted into the graph of their reader: ONNX Runtime aborts on a DequantizeLinear that a branch captures.
    Nodes get no names and values no shapes, as these follow from their neighbors: in a small model they would take as
    much space as the weights.

    Args:
        names: The names that are used in the model.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.divisions: list[ir.Node] = []
        """The nodes that smooth activations: ``Mul(value, factors)``."""
        self._dequantized: dict[tuple[str, ir.Graph], ir.Value] = {}
        self._itself: dict[tuple[str, ir.Graph], ir.Value] = {}
        self._pairs: dict[tuple[str, ir.Graph], tuple[ir.Node, ir.Node]] = {}
        self._weights: dict[tuple[str, int | None, ir.Graph], ir.Value] = {}
        self._integers: dict[tuple[str, int | None], list[ir.Value]] = {}

    @property
    def quantized(self) -> list[tuple[str, ir.Node]]:
        """Yields the tensors that are rounded with a single scale, each with its QuantizeLinear node."""
        pairs = ((name, quantize) for (name, _), (quantize, _) in self._pairs.items())
        return [(name, node) for name, node in pairs if node.inputs[1] is not None and not node.inputs[1].shape]

    def activation(
        self,
        value: ir.Value,
        graph: ir.Graph,
        params: QParams,
        smoothing: Smoothing | None = None,
        *,
        shifted: bool = False,
    ) -> ir.Value:
        """The tensor after Q/DQ; the caller lets its readers read this value.

        Args:
            value: The tensor.
            graph: The graph of its readers, changed in place.
            params: How the tensor is quantized after it is divided by the factors of ``smoothing``.
            smoothing: The factors that it is divided by before.
            shifted: Whether DequantizeLinear does not subtract the zero point
                (:mod:`edgekit_quantize.integers.zero_points`).
        """
        name = value.name or ""
        key = name, graph
        if key not in self._dequantized:
            scale = add_initializer(graph, self.names.fresh(f"{name}_scale"), params.scale)
            zeros = params.zero_point.astype(params.dtype.name)
            zero = add_initializer(graph, self.names.fresh(f"{name}_zero_point"), zeros)
            taken_off = [zero]
            if shifted and zeros.any():
                taken_off = [add_initializer(graph, self.names.fresh(f"{name}_no_zero_point"), np.zeros_like(zeros))]
            if zeros.dtype == np.int8 and not zeros.any():
                taken_off = []  # from opset 21 on, ONNX Runtime 1.31 refuses some int8 zero points, as behind a Reshape
            quantized = ir.Value(name=self.names.fresh(f"{name}_quantized"))
            smooth = [] if smoothing is None else [self._divide(value, graph, smoothing)]
            self.divisions += smooth
            source = smooth[0].outputs[0] if smooth else value
            dequantized = ir.Value(name=self.names.fresh(f"{name}_dequantized"))
            nodes = [
                *smooth,
                ir.node("QuantizeLinear", [source, scale, zero], outputs=[quantized]),
                ir.node("DequantizeLinear", [quantized, scale, *taken_off], outputs=[dequantized]),
            ]
            producer = value.producer()
            if producer is None or producer.graph is not graph:
                graph.insert_before(graph[0], nodes)
            else:
                graph.insert_after(producer, nodes)
            self._dequantized[key] = dequantized
            self._pairs[key] = (nodes[-2], nodes[-1])
            if taken_off in ([], [zero]):
                self._itself[key] = dequantized
        return self._dequantized[key]

    def itself(self, value: ir.Value, graph: ir.Graph) -> ir.Value:
        """The tensor that :meth:`activation` has quantized in the graph, with its zero point subtracted in any case."""
        key = value.name or "", graph
        if key not in self._itself:
            quantize, shifted = self._pairs[key]
            self._itself[key] = ir.Value(name=self.names.fresh(f"{value.name}_itself"))
            inputs = [quantize.outputs[0], *quantize.inputs[1:]]
            graph.insert_after(shifted, ir.node("DequantizeLinear", inputs, outputs=[self._itself[key]]))
        return self._itself[key]

    def _divide(self, value: ir.Value, graph: ir.Graph, smoothing: Smoothing) -> ir.Node:
        rank = 1 if smoothing.axis == -1 or value.shape is None else len(value.shape)
        inverse = add_initializer(graph, self.names.fresh(f"{value.name}_smoothing"), 1 / smoothing.along(rank))
        output = ir.Value(name=self.names.fresh(f"{value.name}_smooth"))
        return ir.node("Mul", [value, inverse], outputs=[output])

    def weight(self, value: ir.Value, graph: ir.Graph, params: QParams, integers: np.ndarray) -> ir.Value:
        """The value that dequantizes ``integers`` in place of a float constant, in its reader's graph.

        The integers of shared constants are written once.
        """
        key = value.name or "", params.axis
        if key not in self._integers:
            self._integers[key] = self._constant(value, integers, params.scale, params.dtype.name)
        if (*key, graph) not in self._weights:
            self._weights[*key, graph] = self._dequantize(value, graph, self._integers[key], params.axis)
        return self._weights[*key, graph]

    def bias(self, value: ir.Value, graph: ir.Graph, scale: np.ndarray) -> ir.Value | None:
        """A bias as int32, dequantized with ``scale``, which is the product of the input's and the weights' scales.

        None if the bias is no constant vector, or exceeds int32.
        """
        array = constant(value)
        if array is None or array.ndim != 1:
            return None
        steps = np.rint(array.astype(np.float64) / scale)
        if np.abs(steps).max(initial=0) > LARGEST_BIAS:
            return None
        scales = np.broadcast_to(scale, array.shape).astype(np.float32)
        return self._dequantize(value, graph, self._constant(value, steps.astype(np.int32), scales, "int32"), 0)

    def _constant(self, value: ir.Value, integers: np.ndarray, scale: np.ndarray, dtype: str) -> list[ir.Value]:
        """Initializers with integers, scales and zero points, in the graph of the float constant that they replace."""
        name, graph = value.name or "", home(value)
        kind = ir.DataType[dtype.upper()]
        inputs = [
            add_initializer(graph, self.names.fresh(f"{name}_{dtype}"), integers, kind),
            add_initializer(graph, self.names.fresh(f"{name}_scale"), scale),
        ]
        if dtype != "int32":  # the zero point of int32 is always 0, and some runtimes refuse one
            zeros = np.zeros(scale.shape, integers.dtype)
            inputs.append(add_initializer(graph, self.names.fresh(f"{name}_zero_point"), zeros, kind))
        return inputs

    def _dequantize(self, value: ir.Value, graph: ir.Graph, inputs: Sequence[ir.Value], axis: int | None) -> ir.Value:
        output = ir.Value(name=self.names.fresh(f"{value.name}_dequantized"))
        attributes: dict[str, int] = {} if axis is None else {"axis": axis}
        node = ir.node("DequantizeLinear", inputs, attributes, outputs=[output])
        graph.insert_before(graph[0], node)
        return output
