"""Writes int8 activations in a form that ONNX Runtime loads in every operator set."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input
from edgekit.model import Model

REFUSED_FROM = 21
"""The operator set from which on ONNX Runtime 1.31 refuses an int8 zero point that it moves past a Reshape, a
Transpose, a Slice, a MaxPool or into a product with a bias: "output_dtype INT8 does not match y_zero_point type UINT8".
"""
_SHIFT = 128
"""The difference between corresponding integers of uint8 and int8."""
_ZERO_POINT = 2


def loadable_activations(model: Model) -> Model:
    """The model with int8 activations changed so that ONNX Runtime accepts their zero points; the numbers are equal.

    A zero point of 0 is removed from the DequantizeLinear. A DequantizeLinear with another zero point reads uint8: from
    the QuantizeLinear itself, or from a second one if other operators, or an output, use its integers. If nothing has
    to be changed, the model itself is returned.
    """
    if model.opset < REFUSED_FROM or not any(_quantizer_of(node) for node in model.graph.all_nodes()):
        return model
    copy = model.graph_model.clone()
    shifted: dict[ir.Node, list[ir.Node]] = {}
    for node in list(copy.graph.all_nodes()):
        quantizer, zero_point = _quantizer_of(node), constant_input(node, _ZERO_POINT)
        if quantizer is None or zero_point is None:
            continue
        if zero_point.any():
            shifted.setdefault(quantizer, []).append(node)
        else:
            node.resize_inputs(_ZERO_POINT)
    for quantizer, readers in shifted.items():
        _make_unsigned(quantizer, readers, copy.graph)
    return model.with_graph(copy)


def _quantizer_of(node: ir.Node) -> ir.Node | None:
    """The QuantizeLinear to int8 whose integers a DequantizeLinear reads.

    None for other nodes, or if one of the two zero points is not a known int8 constant.
    """
    source = node.inputs[0] if node.inputs else None
    quantizer = None if source is None else source.producer()
    if node.domain or node.op_type != "DequantizeLinear" or not _is_int8(constant_input(node, _ZERO_POINT)):
        return None
    if quantizer is None or quantizer.domain or quantizer.op_type != "QuantizeLinear":
        return None
    return quantizer if _is_int8(_zero_point_of(quantizer)) else None


def _is_int8(zero_point: np.ndarray | None) -> bool:
    return zero_point is not None and zero_point.dtype == np.int8


def _zero_point_of(quantizer: ir.Node) -> np.ndarray | None:
    """The zero point of a QuantizeLinear, or zeros if it outputs int8 without one.

    None if the zero point is computed, or if it is left out and the scales are not constant or the type is another.
    """
    given = quantizer.inputs[_ZERO_POINT] if len(quantizer.inputs) > _ZERO_POINT else None
    if given is not None:
        return constant_input(quantizer, _ZERO_POINT)
    scale = constant_input(quantizer, 1)
    is_signed = quantizer.attributes.get_int("output_dtype", 0) == ir.DataType.INT8
    return np.zeros(scale.shape, np.int8) if is_signed and scale is not None else None


def _make_unsigned(quantizer: ir.Node, readers: list[ir.Node], graph: ir.Graph) -> None:
    """Let DequantizeLinear nodes read uint8: the integers and both zero points increase by the same number."""
    zero_point = _zero_point_of(quantizer)
    assert zero_point is not None
    output = quantizer.outputs[0]
    unsigned = _unsigned(zero_point, f"{output.name}_unsigned_zero_point", graph)
    others = [reader for reader, _ in output.uses() if reader not in readers]
    if others or output.is_graph_output():
        attributes = [each for name, each in quantizer.attributes.items() if name != "output_dtype"]
        twin = ir.Node(
            "",
            "QuantizeLinear",
            [*quantizer.inputs[:_ZERO_POINT], unsigned],
            attributes,
            name=f"{quantizer.name or output.name}_unsigned",
        )
        twin.outputs[0].name = f"{output.name}_unsigned"
        twin.outputs[0].shape = output.shape
        twin.outputs[0].dtype = ir.DataType.UINT8
        assert quantizer.graph is not None
        quantizer.graph.insert_after(quantizer, twin)
    else:
        twin = quantizer
        twin.attributes.pop("output_dtype", None)
        twin.outputs[0].dtype = ir.DataType.UINT8
        twin.resize_inputs(_ZERO_POINT + 1)
        twin.replace_input_with(_ZERO_POINT, unsigned)
    for number, reader in enumerate(readers):
        own = constant_input(reader, _ZERO_POINT)
        assert own is not None
        same = np.array_equal(own, zero_point)
        name = f"{output.name}_unsigned_zero_point_{number}"
        reader.replace_input_with(0, twin.outputs[0])
        reader.replace_input_with(_ZERO_POINT, unsigned if same else _unsigned(own, name, graph))


def _unsigned(zero_point: np.ndarray, name: str, graph: ir.Graph) -> ir.Value:
    """A new initializer with the uint8 zero point that corresponds to an int8 one."""
    shifted = (zero_point.astype(np.int16) + _SHIFT).astype(np.uint8)
    value = ir.Value(name=name, const_value=ir.Tensor(shifted, name=name))
    value.shape, value.dtype = ir.Shape(shifted.shape), ir.DataType.UINT8
    graph.register_initializer(value)
    return value
