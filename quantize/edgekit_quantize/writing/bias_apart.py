"""Writes the addition behind a product in a form that ONNX Runtime does not fuse with the product."""

from __future__ import annotations

import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home, is_standard, only_consumer

_GEMM_RANK = 2


def set_bias_apart(layer: Layer, names: Names) -> None:
    """Keep ONNX Runtime from fusing a MatMul and its bias into a Gemm, which multiplies floats (MatMulAddFusion).

    ONNX Runtime has kernels for integers and for block-wise 4-bit matrices only for MatMul. It fuses the Add of an
    operand with one or two dimensions, whether it is a constant, a shortcut or another product, as in the cells of an
    unrolled recurrent layer. If the product has three or more dimensions, the bias therefore gets leading dimensions,
    which do not change the result; if it has two, the negated operand is subtracted, which gives the same numbers.
    Layers of other kinds, and layers without a bias, are not changed.

    Args:
        layer: The layer; its graph is changed in place.
        names: The names that are used in the model.
    """
    reader = only_consumer(layer.output) if layer.kind == "MatMul" else None
    if reader is None or not is_standard(reader, "Add"):
        return
    index = 1 if reader.inputs[0] is layer.output else 0
    value = reader.inputs[index]
    bias = constant(value)
    if value is None or value is layer.output:
        return
    name = names.fresh(f"{value.name}_apart")
    if layer.output.shape is not None and len(layer.output.shape) > _GEMM_RANK:
        if bias is not None and bias.ndim <= _GEMM_RANK:
            more = bias.reshape((1,) * (_GEMM_RANK + 1 - bias.ndim) + bias.shape)
            reader.replace_input_with(index, add_initializer(home(reader), name, more))
        return
    if bias is not None and bias.ndim > _GEMM_RANK:
        return
    negated = _negated(value, name, reader) if bias is None else add_initializer(home(reader), name, -bias)
    reader.op_type = "Sub"
    reader.replace_input_with(0, layer.output)
    reader.replace_input_with(1, negated)


def _negated(value: ir.Value, name: str, before: ir.Node) -> ir.Value:
    """The negated value, computed before the node ``before``."""
    node = ir.node("Neg", [value], num_outputs=1, name=name)
    output = node.outputs[0]
    output.name, output.shape, output.type = name, value.shape, value.type
    home(before).insert_before(before, node)
    return output
