"""Operands of one element become scalars, as the standard defines them.

PyTorch's exporters write the scale of a fake quantization, and the axis of a CumSum, as a tensor of one element. ONNX
Runtime executes such nodes, but it fuses Add, Mul and AveragePool between roundings into integer operators that refuse
the scale ("Scale and Zero-point must be a scalar"), and ONNX's reference, by which constants are folded, refuses the
axis ("Axis must be a rank-0 tensor").
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.nodes import constant_input, input_at
from edgekit.model import node_name

_SCALE, _ZERO_POINT = 1, 2
_SCALARS = {
    "Clip": (1, 2),
    "CumSum": (1,),
    "DequantizeLinear": (_SCALE, _ZERO_POINT),
    "OneHot": (1,),
    "Pad": (2,),
    "QuantizeLinear": (_SCALE, _ZERO_POINT),
    "STFT": (1,),
    "Trilu": (1,),
}
"""Operators and the places of their operands that are scalars, or that may be (the depth of OneHot); a scale or a zero
point is one for the whole tensor."""
_DOMAINS = {"", "com.microsoft"}
_ONE_ELEMENT = (1,)


def make_operands_scalars(model: ir.Model) -> int:
    """Replaces constant operands of shape [1] by scalars, in place; those of block quantization are left alone.

    One scale along an axis of any kind is one scale for the whole tensor.

    Returns:
        The number of operands replaced.
    """
    found = 0
    for node in model.graph.all_nodes():
        if node.domain not in _DOMAINS or node.attributes.get_int("block_size", 0) > 0:
            continue
        for place in _SCALARS.get(node.op_type, ()):
            array = constant_input(node, place)
            if array is None or array.shape != _ONE_ELEMENT:
                continue
            given = input_at(node, place)
            assert given is not None
            assert isinstance(node.graph, ir.Graph)
            name, dtype = f"{node_name(node)}/scalar_{place}", given.dtype or ir.DataType.from_numpy(array.dtype)
            tensor = ir.Tensor(array.reshape(()), dtype=dtype, name=name)
            scalar = ir.Value(name=name, shape=ir.Shape([]), type=ir.TensorType(dtype), const_value=tensor)
            node.graph.register_initializer(scalar)
            node.replace_input_with(place, scalar)
            found += 1
    return found
