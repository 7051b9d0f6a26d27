"""Replaces operators by their definitions in simpler ones, where the ONNX standard gives one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx
import onnx_ir as ir
from onnx.inliner import inline_selected_functions

from edgekit.model import PROTOBUF_LIMIT, Model
from edgekit.rewrites.definition import OVERFLOWING


def expanded(model: Model, op_types: Collection[str]) -> Model | None:
    """The model with every node of these operators replaced by what the standard defines it as.

    Returns:
        The model; None if the standard defines none of the operators by others, if the weights are too large for one
        protobuf message, or if types that a definition depends on are not known.
    """
    schemas = {op_type: schema for op_type in op_types if (schema := _definition(op_type, model.opset)) is not None}
    if not schemas or model.weight_bytes >= PROTOBUF_LIMIT:
        return None
    try:
        # Some definitions depend on the types of the inputs of the node that they replace.
        typed = onnx.shape_inference.infer_shapes(ir.to_proto(_with_defaults(model.graph_model, schemas)))
        proto = inline_selected_functions(
            typed, [("", op_type) for op_type in sorted(schemas)], inline_schema_functions=True
        )
    except RuntimeError:  # its inliner finds no type for an optional input or output that is left out
        return None
    return model.with_graph(ir.from_proto(proto))


def _definition(op_type: str, opset: int) -> Any:
    """Returns an operator's schema if the standard defines it by others in a way right for all numbers; else None."""
    if op_type in OVERFLOWING:
        return None
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset)  # its stubs lack the two attributes
    except onnx.defs.SchemaError:
        return None
    return schema if schema.has_function or schema.has_context_dependent_function else None


def _with_defaults(model: ir.Model, schemas: dict[str, Any]) -> ir.Model:
    """Returns a copy in which the operators state all attributes: the inliner ignores those left to their defaults."""
    copy = model.clone()
    for node in copy.graph.all_nodes():
        schema = schemas.get(node.op_type) if node.domain == "" else None
        for name, attribute in schema.attributes.items() if schema is not None else ():
            if name not in node.attributes and attribute.default_value.name:
                node.attributes.add(ir.serde.deserialize_attribute(attribute.default_value))
    return copy
