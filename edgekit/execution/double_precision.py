"""A model with its arithmetic in double precision, which shows how much the model itself rounds.

Inputs that move by one unit do not show the precision that is lost inside: the exponential of a number near 0 keeps few
of its digits, and a logarithm after it makes the loss visible.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.model import Arrays, Model

_NARROWER = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_DOUBLE = ir.DataType.DOUBLE


def in_double(model: Model) -> Model:
    """The model with double precision in place of single and half precision; the given one is not changed.

    ONNX Runtime does not execute the result if an operator has no kernel for double precision.
    """
    graph_model = model.graph_model.clone()
    for graph in graph_model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = _widened(value.const_value)
        made = (value for node in graph for value in node.outputs)
        for value in (*graph.inputs, *graph.initializers.values(), *made):
            if isinstance(value.type, ir.TensorType) and value.dtype in _NARROWER:
                value.type = ir.TensorType(_DOUBLE)
        for node in graph:
            _widen(node)
    return model.with_graph(graph_model)


def doubled(arrays: Arrays) -> Arrays:
    """The arrays, floating-point numbers in double precision."""
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def _widen(node: ir.Node) -> None:
    """Changes a node's attributes that give its result a narrower floating-point type to double precision."""
    for attribute in list(node.attributes.values()):
        if attribute.is_ref():
            continue
        if node.op_type == "Cast" and attribute.name == "to" and attribute.as_int() in _NARROWER:
            node.attributes.add(ir.AttrInt64("to", _DOUBLE))
        elif attribute.type is ir.AttributeType.TENSOR:
            node.attributes.add(ir.AttrTensor(attribute.name, _widened(attribute.as_tensor())))
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            node.attributes.pop(attribute.name)
            node.attributes.add(ir.AttrTensor("value", ir.Tensor(np.asarray(attribute.value, np.float64))))


def _widened(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    if tensor.dtype not in _NARROWER:
        return tensor
    return ir.Tensor(np.asarray(tensor.numpy(), np.float64), dtype=_DOUBLE, name=tensor.name)
