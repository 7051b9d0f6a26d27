"""Which types of values OpenVINO cannot take: at a model's inputs and outputs, and inside it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name

EXCHANGED = frozenset(
    {
        ir.DataType.BOOL,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT,
        ir.DataType.FLOAT16,
        ir.DataType.INT8,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.STRING,
        ir.DataType.UINT8,
        ir.DataType.UINT16,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    }
)
"""Element types that NumPy and OpenVINO can exchange."""

UNKNOWN_TO_OPENVINO = frozenset(
    {ir.DataType.FLOAT8E4M3FNUZ, ir.DataType.FLOAT8E5M2FNUZ, ir.DataType.INT2, ir.DataType.UINT2}
)


def border_gaps(model: Model) -> list[OpGap]:
    """The nodes that read an input or make an output whose type cannot be exchanged, in graph order."""
    borders = {value: f"the model's input {value.name!r}" for value in model.graph.inputs}
    borders |= {value: f"the model's output {value.name!r}" for value in model.graph.outputs}
    strange = {value: text for value, text in borders.items() if not _is_exchanged(value)}
    return [
        OpGap(
            op_type=op_name(node),
            node=node_name(node),
            reason=f"{strange[value]} is {_type_text(value)}, which OpenVINO cannot exchange",
        )
        for node in model.graph
        for value in _values(node)
        if value in strange
    ]


def inner_gaps(model: Model, reason: str) -> list[OpGap]:
    """The nodes that handle sequences, optional values or elements that OpenVINO has no type for, in graph order.

    Args:
        model: A model that OpenVINO cannot convert.
        reason: OpenVINO's message about it.
    """
    return [
        OpGap(op_type=op_name(node), node=node_name(node), reason=f"OpenVINO cannot convert it: {reason}")
        for node in model.graph.all_nodes()
        if any(value.dtype in UNKNOWN_TO_OPENVINO or not _is_tensor(value) for value in _values(node))
        or "Sequence" in node.op_type
    ]


def _values(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.inputs if value is not None)
    yield from node.outputs


def _is_tensor(value: ir.Value) -> bool:
    return value.type is None or isinstance(value.type, ir.TensorType)


def _is_exchanged(value: ir.Value) -> bool:
    return _is_tensor(value) and (value.dtype is None or value.dtype in EXCHANGED)


def _type_text(value: ir.Value) -> str:
    return str(value.dtype).lower() if _is_tensor(value) else "no tensor"
