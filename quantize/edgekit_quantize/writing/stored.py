"""Stores weights as integers and computes in float: smaller files, the same speed, nearly the same numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home
from edgekit_quantize.integers.qparams import QParams

BLOCKED_OPSET = 21
"""From this version of the operator set on, DequantizeLinear takes one scale per block, and 4-bit integers."""


class StoredWeights:
    """Writes constants of one model as integers.

    Args:
        form: ``dequantize`` or ``cast``; see :class:`edgekit_quantize.settings.Settings`.
        names: The names that are taken in the model.
    """

    def __init__(self, form: str, names: Names) -> None:
        self._form = form
        self._names = names
        self._done: dict[tuple[str, int | None, int, bool, ir.Graph], ir.Value] = {}
        self._held: dict[tuple[str, int | None, int], ir.Value] = {}
        self._tables: dict[str, ir.Value] = {}
        self._table_scales: dict[tuple[str, ir.Graph], ir.Value] = {}

    def store(
        self,
        value: ir.Value,
        graph: ir.Graph,
        params: QParams,
        integers: np.ndarray | None = None,
        *,
        folded: bool = False,
    ) -> ir.Value:
        """The float constant ``value``, computed from integers; the same result for the same constant and parameters.

        ONNX Runtime refuses a DequantizeLinear whose integers or whose result a branch captures. A constant of an outer
        graph is therefore computed in that graph, in the form ``cast``.

        Args:
            value: The constant.
            graph: The graph of its readers, changed in place.
            params: The scales of the integers.
            integers: The integers to store; None rounds to nearest.
            folded: Whether its reader needs a constant when the graph is loaded, which requires the form ``cast``.
        """
        cast = (folded or self._form == "cast" or graph is not home(value)) and not params.block
        key = value.name or "", params.axis, params.block
        place = (*key, cast, home(value) if cast else graph)
        if place not in self._done:
            array = constant(value)
            if array is None:
                raise ValueError(f"{value.name!r} is not constant")
            if key not in self._held:
                stored = params.quantize(array) if integers is None else integers
                self._held[key] = self._integers(value, stored, params)
            write = self._by_cast if cast else self._by_dequantize
            self._done[place] = write(value, place[-1], array, self._held[key], params)
        return self._done[place]

    def table(self, node: ir.Node, params: QParams) -> None:
        """Store the table that a Gather along axis 0 reads as integers, and dequantize the gathered rows.

        The integers of a table that several nodes read are written once.
        """
        data, output = node.inputs[0], node.outputs[0]
        array = constant(data)
        if data is None or array is None:
            raise ValueError(f"the table of {node.name!r} is not constant")
        name, graph = data.name or "", home(node)
        if name not in self._tables:
            self._tables[name] = self._integers(data, params.quantize(array), params)
        if (name, graph) not in self._table_scales:
            fresh = self._names.fresh(f"{name}_scale")
            self._table_scales[name, graph] = add_initializer(graph, fresh, params.scale)
        held, scale = self._tables[name], self._table_scales[name, graph]
        node.replace_input_with(0, held)
        gathered = ir.Value(
            name=self._names.fresh(f"{output.name}_{params.dtype.name}"), shape=output.shape, type=held.type
        )
        inner = ir.node(
            node.op_type, list(node.inputs), node.attributes, outputs=[gathered], name=f"{node.name}_integers"
        )
        scaled = ir.node("DequantizeLinear", [gathered, scale], {"axis": -1}, num_outputs=1, name=f"{node.name}_scaled")
        graph.insert_before(node, [inner, scaled])
        result = scaled.outputs[0]
        result.shape, result.type = output.shape, output.type
        output.replace_all_uses_with(result, replace_graph_outputs=True)
        made, output.name = output.name, None
        graph.remove(node, safe=True)
        result.name = made

    def _by_cast(
        self, value: ir.Value, graph: ir.Graph, array: np.ndarray, held: ir.Value, params: QParams
    ) -> ir.Value:
        steps = 1 / params.spread(array.shape)[0]
        scale = add_initializer(graph, self._names.fresh(f"{value.name}_steps"), steps.astype(array.dtype))
        dtype = ir.DataType.from_numpy(array.dtype)
        cast = ir.node("Cast", [held], {"to": dtype.value}, num_outputs=1)
        quotient = ir.node("Div", [cast.outputs[0], scale], num_outputs=1)
        return self._insert([(cast, dtype), (quotient, dtype)], value, graph)

    def _by_dequantize(
        self, value: ir.Value, graph: ir.Graph, array: np.ndarray, held: ir.Value, params: QParams
    ) -> ir.Value:
        scale = add_initializer(graph, self._names.fresh(f"{value.name}_scale"), params.scale)
        attributes: dict[str, int] = {} if params.axis is None else {"axis": params.axis}
        if params.block:
            attributes["block_size"] = params.block
        dequantize = ir.node("DequantizeLinear", [held, scale], attributes, num_outputs=1)
        nodes = [(dequantize, ir.DataType.FLOAT)]
        dtype = ir.DataType.from_numpy(array.dtype)
        if dtype is not ir.DataType.FLOAT:
            nodes.append((ir.node("Cast", [dequantize.outputs[0]], {"to": dtype.value}, num_outputs=1), dtype))
        return self._insert(nodes, value, graph)

    def _insert(self, nodes: list[tuple[ir.Node, ir.DataType]], value: ir.Value, graph: ir.Graph) -> ir.Value:
        """Inserts nodes, given with the types of their outputs, at the start of the graph; returns the last output."""
        for node, dtype in nodes:
            output = node.outputs[0]
            output.name = node.name = self._names.fresh(f"{value.name}_float")
            output.shape, output.type = value.shape, ir.TensorType(dtype)
        graph.insert_before(graph[0], [node for node, _ in nodes])
        return nodes[-1][0].outputs[0]

    def _integers(self, value: ir.Value, integers: np.ndarray, params: QParams) -> ir.Value:
        """An initializer with the integers, in the graph of the float constant that they replace."""
        dtype = ir.DataType[params.dtype.name.upper()]
        fresh = self._names.fresh(f"{value.name}_{params.dtype.name}")
        return add_initializer(home(value), fresh, integers, dtype)
