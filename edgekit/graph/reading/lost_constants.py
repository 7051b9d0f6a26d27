"""Inputs that look like constants whose values an exporter lost.

``keras.Model.export(format="onnx")`` turns arrays that a layer holds outside of its weights into inputs, such as the
mean and the variance of an adapted Normalization. The file has no values for them.
"""

from __future__ import annotations

import re

import onnx

_TENSOR_OF_A_SCOPE = re.compile(r".+/.+:\d+")
"""How TensorFlow calls a tensor inside of a graph: ``normalization/Sub/y:0``."""


def warn_of_lost_constants(proto: onnx.ModelProto) -> list[str]:
    """Warns of inputs with fixed shapes and names of tensors inside a graph, if other inputs have free sizes.

    Returns:
        One warning that names all of these inputs, or an empty list.
    """
    held = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in held]
    suspects = [each.name for each in inputs if _TENSOR_OF_A_SCOPE.fullmatch(each.name) and not _has_free_size(each)]
    if not suspects or not any(map(_has_free_size, inputs)):
        return []
    return [
        f"inputs with fixed shapes that are called as tensors inside of the graph: {', '.join(suspects)}; if they are "
        "constants whose values the exporter lost, as Keras' loses the mean and the variance of a Normalization layer, "
        "export the SavedModel with `python -m tf2onnx.convert --saved-model`, which keeps them; else every sample and "
        "the app have to feed them"
    ]


def _has_free_size(value: onnx.ValueInfoProto) -> bool:
    return any(not dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
