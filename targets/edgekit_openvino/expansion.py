"""Replaces operators by their definitions in simpler ones, where the ONNX standard gives one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx
import onnx_ir as ir
from onnx.inliner import inline_selected_functions

from edgekit.model import PROTOBUF_LIMIT, Model


def expanded(model: Model, op_types: Collection[str]) -> Model | None:
    """The model with every node of these operators replaced by what the standard defines it as.

    Returns:
        None where the standard defines none of them by others, or where types that a definition goes by are not known.
    """
    defined = sorted(op_type for op_type in op_types if _has_definition(op_type, model.opset))
    if not defined or model.weight_bytes >= PROTOBUF_LIMIT:
        return None
    try:
        # Some definitions go by the types of what they stand for.
        typed = onnx.shape_inference.infer_shapes(model.proto())
        proto = inline_selected_functions(typed, [("", op_type) for op_type in defined], inline_schema_functions=True)
    except RuntimeError:  # its inliner finds no type for an optional input or output that is left out
        return None
    return model.with_graph(ir.from_proto(proto))


def _has_definition(op_type: str, opset: int) -> bool:
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset)  # its stubs lack the two attributes
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
