"""Inputs that the file has a value for, an initializer, and that the samples feed.

The value is a default, which callers may replace (ONNX IR specification, "Graphs"); where samples do, callers will.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx


def feed_initializers(proto: onnx.ModelProto, fed: Collection[str]) -> list[str]:
    """Takes the values of inputs that are fed out of the graph, in place; other initializers stay constant.

    Args:
        proto: The model.
        fed: The names of what every sample feeds.

    Returns:
        The names of the inputs that had a value.
    """
    graph = proto.graph
    inputs = {value.name: value for value in graph.input if value.name in fed}
    found = [tensor for tensor in graph.initializer if tensor.name in inputs]
    for tensor in found:
        declared = inputs[tensor.name].type.tensor_type
        if not declared.HasField("shape"):
            declared.elem_type = tensor.data_type
            declared.shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in tensor.dims)
        graph.initializer.remove(tensor)
    return [tensor.name for tensor in found]
