"""Function bodies: the graphs by which models and operator schemas define an operator in terms of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import onnx
import onnx_ir as ir

from edgekit_mil.core.values import Value

STANDARD_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Body:
    """A function that replaces a node."""

    function: ir.Function
    outputs: tuple[bool, ...]
    """For every output of the node, whether the function has it; it lacks optional ones that the node leaves out."""


class FunctionSchema(Protocol):
    """What a schema offers about its function bodies; onnx's type stubs leave it out."""

    @property
    def has_function(self) -> bool:
        """Whether there is a body that is the same for every node."""

    @property
    def function_opset_versions(self) -> Sequence[int]:
        """Opsets for which there is a separate body."""

    def get_function_with_opset_version(self, version: int) -> bytes:
        """The body at an opset, serialized."""

    @property
    def has_context_dependent_function(self) -> bool:
        """Whether attributes and input types decide what the body is."""

    @property
    def context_dependent_function_opset_versions(self) -> Sequence[int]:
        """Opsets for which there is a separate body that depends on the node."""

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, input_types: Sequence[bytes]
    ) -> bytes:
        """The body of a node at an opset, serialized."""


def has_body(schema: onnx.defs.OpSchema | None) -> bool:
    """Whether the schema defines the operator in terms of others."""
    if schema is None:
        return False
    typed = cast(FunctionSchema, schema)
    return typed.has_function or typed.has_context_dependent_function


def known_attributes(schema: onnx.defs.OpSchema | None) -> frozenset[str] | None:
    """Names of the attributes that a schema defines; None if there is no schema."""
    return None if schema is None else frozenset(schema.attributes)


def schema_body(schema: onnx.defs.OpSchema, node: ir.Node, inputs: Sequence[Value | None], opset: int) -> Body | None:
    """Returns the function body that a schema has for a node; None if it has none.

    Args:
        schema: The operator's schema.
        node: The node, its attributes without references, inputs left out without a name.
        inputs: Its inputs' values, on whose types the body may depend.
        opset: The standard domain's opset that the graph imports.
    """
    typed = cast(FunctionSchema, schema)
    if typed.has_function:
        versions = [version for version in typed.function_opset_versions if version <= opset]
        return parsed(typed.get_function_with_opset_version(max(versions))) if versions else None
    if not typed.has_context_dependent_function:
        return None
    versions = [version for version in typed.context_dependent_function_opset_versions if version <= opset]
    if not versions:
        return None
    serialized = ir.to_proto(node).SerializeToString()
    types = [type_proto(value).SerializeToString() for value in inputs]
    return parsed(typed.get_context_dependent_function_with_opset_version(max(versions), serialized, types))


def parsed(serialized: bytes) -> Body | None:
    """Returns the function that a serialized message holds; None if it is empty."""
    if not serialized:
        return None
    proto = onnx.FunctionProto()
    proto.ParseFromString(serialized)
    produced = {name for node in proto.node for name in node.output} | set(proto.input)
    formal = list(proto.output)
    del proto.output[:]
    proto.output.extend(name for name in formal if name in produced)
    return Body(ir.serde.deserialize_function(proto), tuple(name in produced for name in formal))


def type_proto(value: Value | None) -> onnx.TypeProto:
    """A value's type as onnx's function builders want it; empty for an input left out."""
    if value is None:
        return onnx.TypeProto()
    shape = [int(size) if isinstance(size, int) else None for size in value.shape]
    return onnx.helper.make_tensor_type_proto(value.dtype, shape)


def schema_defaults(schema: onnx.defs.OpSchema | None) -> Mapping[str, ir.Attr]:
    """The default values of a schema's attributes."""
    if schema is None:
        return {}
    defaults = {name: attr.default_value for name, attr in schema.attributes.items()}
    return {name: ir.serde.deserialize_attribute(proto) for name, proto in defaults.items() if proto.type}
