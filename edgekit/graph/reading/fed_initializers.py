"""Inputs for which the file has a value (an initializer), and which the samples feed.

The value is a default, which callers may replace (ONNX IR specification, "Graphs"). If the samples replace it, callers
will, too.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx


def feed_initializers(proto: onnx.ModelProto, fed: Collection[str]) -> list[str]:
    """Removes the initializers of inputs that are fed from the graph, in place; other initializers stay constant.

    Args:
        proto: The model.
        fed: The names of the inputs that every sample feeds.

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
