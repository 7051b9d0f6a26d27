"""Keeps the bias of a product in a form that ONNX Runtime does not fuse with it."""

from __future__ import annotations

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home, is_standard, only_consumer


def set_bias_apart(layer: Layer, names: Names) -> None:
    """Keep ONNX Runtime from fusing product and bias into a Gemm, where it would multiply floats: MatMulAddFusion.

    It has kernels for integers and for matrices in blocks of 4 bits in MatMul alone. It fuses an Add of one dimension
    or two. More dimensions do not change a result of three and more; of a result of two the bias is subtracted with the
    other sign, which gives the same numbers. Layers of other kinds, and those without a bias, stay as they are.

    Args:
        layer: Its graph is changed in place.
        names: Those that are taken in the model.
    """
    reader = only_consumer(layer.output) if layer.kind == "MatMul" else None
    if reader is None or not is_standard(reader, "Add"):
        return
    index = 1 if reader.inputs[0] is layer.output else 0
    value = reader.inputs[index]
    bias = constant(value)
    if value is None or bias is None or bias.ndim > 2:
        return
    name = names.fresh(f"{value.name}_apart")
    if layer.output.shape is not None and len(layer.output.shape) > 2:
        reader.replace_input_with(
            index, add_initializer(home(reader), name, bias.reshape((1,) * (3 - bias.ndim) + bias.shape))
        )
        return
    reader.op_type = "Sub"
    reader.replace_input_with(0, layer.output)
    reader.replace_input_with(1, add_initializer(home(reader), name, -bias))
