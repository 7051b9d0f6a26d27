"""Quantized activations of int8 in a form that ONNX Runtime loads in every operator set."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input
from edgekit.model import Model

REFUSED_FROM = 21
"""The operator set from which on ONNX Runtime 1.31 refuses an int8 zero point that it hands on past a Reshape, a
Transpose, a Slice, a MaxPool or into a product with a bias: "output_dtype INT8 does not match y_zero_point type UINT8".
"""
_SHIFT = 128
"""From the integers of int8 to those of uint8."""
_ZERO_POINT = 2


def loadable_activations(model: Model) -> Model:
    """The model with activations of int8 whose zero points ONNX Runtime takes; the numbers are the same.

    A zero point of 0 is left out of the DequantizeLinear, and what has another one becomes uint8. What a QuantizeLinear
    gives to other operators too stays. The model itself where nothing changes.
    """
    if model.opset < REFUSED_FROM or not any(_is_signed(node) for node in model.graph.all_nodes()):
        return model
    copy = model.graph_model.clone()
    for node in list(copy.graph.all_nodes()):
        if _is_signed(node):
            _make_loadable(node, copy.graph)
    return model.with_graph(copy)


def _is_signed(node: ir.Node) -> bool:
    """Whether it is a QuantizeLinear to int8 all of whose readers have its zero point, a known one."""
    if node.domain or node.op_type != "QuantizeLinear" or node.outputs[0].is_graph_output():
        return False
    zero_point = constant_input(node, _ZERO_POINT)
    readers = [reader for reader, _ in node.outputs[0].uses()]
    return (
        zero_point is not None
        and zero_point.dtype == np.int8
        and bool(readers)
        and all(not reader.domain and reader.op_type == "DequantizeLinear" for reader in readers)
        and all(_same(constant_input(reader, _ZERO_POINT), zero_point) for reader in readers)
    )


def _same(found: np.ndarray | None, expected: np.ndarray) -> bool:
    return found is not None and np.array_equal(found, expected)


def _make_loadable(node: ir.Node, graph: ir.Graph) -> None:
    zero_point = constant_input(node, _ZERO_POINT)
    assert zero_point is not None
    readers = [reader for reader, _ in node.outputs[0].uses()]
    if not zero_point.any():
        for reader in readers:
            reader.resize_inputs(_ZERO_POINT)
        return
    unsigned = (zero_point.astype(np.int16) + _SHIFT).astype(np.uint8)
    name = f"{node.outputs[0].name}_unsigned_zero_point"
    value = ir.Value(name=name, const_value=ir.Tensor(unsigned, name=name))
    value.shape, value.dtype = ir.Shape(unsigned.shape), ir.DataType.UINT8
    graph.register_initializer(value)
    node.attributes.pop("output_dtype", None)
    node.outputs[0].dtype = ir.DataType.UINT8
    for each in (node, *readers):
        each.replace_input_with(_ZERO_POINT, value)
