"""Scales and zero points of one element become scalars, as the standard defines them for a whole tensor.

PyTorch's exporter writes the scale of a fake quantization as a tensor of one element. ONNX Runtime executes such nodes,
but fuses Add, Mul and AveragePool between them into integer operators that refuse the tensor: "Scale and Zero-point
must be a scalar".
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.nodes import constant_input, input_at
from edgekit.model import node_name

_OPERATORS = {"DequantizeLinear", "QuantizeLinear"}
_DOMAINS = {"", "com.microsoft"}
_SCALE, _ZERO_POINT = 1, 2
_ONE_ELEMENT = (1,)


def make_scales_scalars(model: ir.Model) -> int:
    """Replaces constant scales and zero points of shape [1] by scalars, in place; block quantization is left alone.

    One scale along an axis of any kind is one scale for the whole tensor.

    Returns:
        The number of scales and zero points replaced.
    """
    found = 0
    for node in model.graph.all_nodes():
        if node.op_type not in _OPERATORS or node.domain not in _DOMAINS:
            continue
        if node.attributes.get_int("block_size", 0) > 0:
            continue
        for place in (_SCALE, _ZERO_POINT):
            array = constant_input(node, place)
            if array is None or array.shape != _ONE_ELEMENT:
                continue
            given = input_at(node, place)
            assert given is not None
            assert given.dtype is not None
            assert isinstance(node.graph, ir.Graph)
            name = f"{node_name(node)}/scalar_{place}"
            tensor = ir.Tensor(array.reshape(()), dtype=given.dtype, name=name)
            scalar = ir.Value(name=name, shape=ir.Shape([]), type=ir.TensorType(given.dtype), const_value=tensor)
            node.graph.register_initializer(scalar)
            node.replace_input_with(place, scalar)
            found += 1
    return found
