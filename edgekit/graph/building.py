"""Builds nodes for a graph in the form of its opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

Operand = ir.Value | np.ndarray | np.generic | Sequence[int] | int | None
"""A graph's value; numbers that become an initializer (int64 unless an array or NumPy scalar); None for no input."""

FUNCTIONS = "edgekit.functions"
"""Domain of the functions that a builder calls."""

_AXES_ARE_INPUTS = {"ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}
"""Operators whose axes became an input in another opset than those of the other reductions."""
_REDUCTIONS_TAKE_AXES_SINCE = 18


class NodeBuilder:
    """Makes nodes in an order in which they can be computed, and the constants that they read.

    Args:
        opset: The version of the standard operators that the nodes are made for, 9 or newer.
        prefix: What all names start with.
    """

    def __init__(self, opset: int, prefix: str) -> None:
        self.opset = opset
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self.functions: list[ir.Function] = []
        """The functions that :meth:`call` calls; code that adds the nodes to a model has to inline them."""
        self._prefix = prefix

    def __call__(self, op_type: str, *operands: Operand, domain: str = "", **attributes: Any) -> ir.Value:
        """The output of a new node; attributes that are None are left out."""
        return self.several(1, op_type, *operands, domain=domain, **attributes)[0]

    def several(
        self, count: int, op_type: str, *operands: Operand, domain: str = "", **attributes: Any
    ) -> Sequence[ir.Value]:
        """The outputs of a new node that has ``count`` of them."""
        given = {name: value for name, value in attributes.items() if value is not None}
        inputs = [self.value(operand) for operand in operands]
        name = f"{self._prefix}/{op_type}_{len(self.nodes)}"
        node = ir.node(op_type, inputs, given, domain=domain, num_outputs=count, name=name)
        for number, value in enumerate(node.outputs):
            value.name = f"{name}_output_{number}"
        self.nodes.append(node)
        return node.outputs

    def adopt(self, node: ir.Node) -> Sequence[ir.Value]:
        """Adds a node created elsewhere, renames it and its outputs, and returns the outputs."""
        node.name = f"{self._prefix}/{node.op_type}_{len(self.nodes)}"
        for number, value in enumerate(node.outputs):
            value.name = f"{node.name}_output_{number}"
        self.nodes.append(node)
        return node.outputs

    def value(self, operand: Operand) -> ir.Value | None:
        """The value that an operand is; a new constant for numbers."""
        if operand is None or isinstance(operand, ir.Value):
            return operand
        is_typed = isinstance(operand, (np.ndarray, np.generic))
        return self.constant(np.asarray(operand) if is_typed else np.asarray(operand, np.int64))

    def constant(self, array: np.ndarray) -> ir.Value:
        """Adds a constant."""
        name = f"{self._prefix}/constant_{len(self.initializers)}_{len(self.nodes)}"
        tensor: ir.TensorProtocol
        if array.dtype.kind in "OSU":
            tensor = ir.StringTensor(
                [str(text).encode() for text in array.ravel()], shape=ir.Shape(array.shape), name=name
            )
        else:
            tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self.initializers.append(value)
        return value

    def cast(self, x: Operand, dtype: ir.DataType) -> ir.Value:
        """Casts to another type; returns ``x`` itself if it is known to have that type."""
        if isinstance(x, ir.Value) and x.dtype == dtype:
            return x
        result = self("Cast", x, to=int(dtype))
        result.dtype = dtype
        return result

    def reduce(self, op_type: str, x: Operand, axes: Sequence[int], *, keepdims: bool = True) -> ir.Value:
        """A reduction (``ReduceSum``, ``ReduceMax`` …) over some axes."""
        if self.opset >= _AXES_ARE_INPUTS.get(op_type, _REDUCTIONS_TAKE_AXES_SINCE):
            return self(op_type, x, list(axes), keepdims=int(keepdims))
        return self(op_type, x, axes=list(axes), keepdims=int(keepdims))

    def squeeze(self, x: Operand, axes: Sequence[int]) -> ir.Value:
        """Removes axes of size 1."""
        return self._reshaped("Squeeze", x, axes)

    def places_of_greatest(self, x: Operand, axis: int) -> ir.Value:
        """Returns the index of the greatest number along an axis, the first of equal ones; the axis is removed."""
        return self("ArgMax", x, axis=axis, keepdims=0)

    def unsqueeze(self, x: Operand, axes: Sequence[int]) -> ir.Value:
        """Inserts axes of size 1."""
        return self._reshaped("Unsqueeze", x, axes)

    def _reshaped(self, op_type: str, x: Operand, axes: Sequence[int]) -> ir.Value:
        if self.opset >= _AXES_ARE_INPUTS[op_type]:
            return self(op_type, x, list(axes))
        return self(op_type, x, axes=list(axes))

    def slice(self, x: Operand, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> ir.Value:
        """Slices with constant borders."""
        if self.opset >= 10:
            return self("Slice", x, list(starts), list(ends), list(axes))
        return self("Slice", x, starts=list(starts), ends=list(ends), axes=list(axes))

    def split(self, x: Operand, axis: int, sizes: Sequence[int]) -> Sequence[ir.Value]:
        """Splits along an axis."""
        if self.opset >= 13:
            return self.several(len(sizes), "Split", x, list(sizes), axis=axis)
        return self.several(len(sizes), "Split", x, axis=axis, split=list(sizes))

    def pad(self, x: Operand, pads: Sequence[int]) -> ir.Value:
        """Pads with zeros: ``pads`` has the numbers before each axis, then those behind each axis."""
        if self.opset >= 11:
            return self("Pad", x, list(pads))
        return self("Pad", x, pads=list(pads))

    def inner(self, name: str) -> NodeBuilder:
        """A builder for the body of a node, which :meth:`graph` makes."""
        return NodeBuilder(self.opset, f"{self._prefix}/{name}_{len(self.nodes)}")

    def graph(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Graph:
        """Returns the nodes built so far as a separate graph, for the body of a node."""
        return ir.Graph(
            inputs,
            outputs,
            nodes=self.nodes,
            initializers=self.initializers,
            opset_imports={"": self.opset},
            name=self._prefix,
        )

    def call(
        self, body: onnx.FunctionProto, inputs: Sequence[ir.Value | None], attributes: Sequence[ir.Attr]
    ) -> Sequence[ir.Value]:
        """Calls a function with inputs and attributes, and returns its outputs."""
        body.domain, body.overload = FUNCTIONS, f"{self._prefix} {len(self.functions)}"
        body.name = body.name or "body"
        del body.opset_import[:]
        body.opset_import.append(onnx.helper.make_opsetid("", self.opset))
        function = ir.serde.deserialize_function(body)
        self.functions.append(function)
        name = f"{self._prefix}/{body.name}_{len(self.nodes)}"
        node = ir.Node(
            FUNCTIONS,
            body.name,
            inputs[: len(function.inputs)],
            attributes,
            overload=body.overload,
            num_outputs=len(function.outputs),
            name=name,
        )
        for number, value in enumerate(node.outputs):
            value.name = f"{name}_output_{number}"
        self.nodes.append(node)
        return node.outputs
