"""Constants as bytes: OpenVINO's ONNX frontend misreads some that the file holds as a list of numbers.

It takes the bits of bfloat16 and of float8, which ``int32_data`` holds, for the numbers themselves, and reads uint32 in
``uint64_data`` as pairs (seen in OpenVINO 2026.4.1). ONNX lets a file hold them either way.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.model import Model

MISREAD = frozenset(
    {
        ir.DataType.BFLOAT16,
        ir.DataType.FLOAT8E4M3FN,
        ir.DataType.FLOAT8E4M3FNUZ,
        ir.DataType.FLOAT8E5M2,
        ir.DataType.FLOAT8E5M2FNUZ,
        ir.DataType.UINT32,
    }
)
"""The types of which the frontend misreads lists."""


def with_constants_as_bytes(model: Model) -> Model:
    """Returns the model with constants of misread types as bytes, or itself if it has no lists of such numbers."""
    if not any(_is_list(tensor) for tensor in model.tensors()):
        return model
    graph_model = model.graph_model.clone()
    for graph in graph_model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None and _is_list(value.const_value):
                value.const_value = _as_bytes(value.const_value)
        for node in graph:
            for attribute in list(node.attributes.values()):
                if attribute.type == ir.AttributeType.TENSOR and _is_list(attribute.value):
                    node.attributes.add(ir.AttrTensor(attribute.name, _as_bytes(attribute.value)))
    return model.with_graph(graph_model)


def _is_list(tensor: object) -> bool:
    return isinstance(tensor, ir.TensorProtoTensor) and tensor.dtype in MISREAD and not tensor.raw.HasField("raw_data")


def _as_bytes(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name)
