"""Any operator that the ONNX standard defines by others: replaced by that definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import onnx
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
OVERFLOWING = frozenset({"ReduceLogSumExp"})
"""Standard operators whose definition takes exponentials of numbers of any size, which overflow and vanish."""


class Definition(Rewrite):
    """The function body of an operator's schema, for the types of the node's inputs if the body depends on them."""

    name: ClassVar[str] = "definition in the standard"
    op_types: ClassVar[Sequence[str]] = ()

    def matches(self, node: ir.Node) -> bool:
        """Whether the newest schema of the operator has a body that computes what the operator does for all numbers."""
        if not node.domain and node.op_type in OVERFLOWING:
            return False
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, node.domain)
        except onnx.defs.SchemaError:
            return False
        return bool(schema.has_function or schema.has_context_dependent_function)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds a call of the body, to be inlined."""
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, build.opset, node.domain)
        except onnx.defs.SchemaError as error:
            raise InapplicableError(f"{node.op_type} is not in opset {build.opset}") from error
        strange = sorted(node.attributes.keys() - schema.attributes.keys())
        if strange:
            raise InapplicableError(f"the attribute {strange[0]} is not known to {node.op_type} in opset {build.opset}")
        attributes = dict(node.attributes)
        for name, known in schema.attributes.items():
            if name not in attributes and known.default_value.name:
                attributes[name] = ir.serde.deserialize_attribute(known.default_value)
        if any(attribute.type in _GRAPHS for attribute in attributes.values()):
            raise InapplicableError("a definition cannot read what a graph of the node reads from outside")
        body = _body(schema, _twin(node, attributes), build.opset)
        made = {name for inner in body.node for name in inner.output} | set(body.input)
        kept = [number for number, name in enumerate(body.output) if name in made and number < len(node.outputs)]
        names = [body.output[number] for number in kept]
        del body.output[:]
        body.output.extend(names)
        results = build.call(body, node.inputs, [attributes[name] for name in body.attribute if name in attributes])
        found = dict(zip(kept, results, strict=True))
        return [found.get(number) for number in range(len(node.outputs))]


def _body(schema: Any, node: ir.Node, opset: int) -> onnx.FunctionProto:
    """The operator's definition for a node that has all its attributes.

    Raises:
        InapplicableError: The standard has no definition for the node.
    """
    body = onnx.FunctionProto()
    if schema.has_function:
        versions = [version for version in schema.function_opset_versions if version <= opset]
        if versions:
            body.ParseFromString(schema.get_function_with_opset_version(max(versions)))
    elif schema.has_context_dependent_function:
        versions = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
        types = [_type(value) for value in node.inputs]
        if versions and None not in types:
            message = ir.to_proto(node).SerializeToString()
            serialized = [each.SerializeToString() for each in types if each is not None]
            text = schema.get_context_dependent_function_with_opset_version(max(versions), message, serialized)
            body.ParseFromString(text)
    if not body.node:
        raise InapplicableError(f"the standard gives {node.op_type} no definition in opset {opset} for these inputs")
    return body


def _twin(node: ir.Node, attributes: dict[str, ir.Attr]) -> ir.Node:
    """Returns a copy of the node that belongs to no graph, with the given attributes."""
    inputs = [
        None if value is None else ir.Value(name=value.name, type=value.type, shape=value.shape)
        for value in node.inputs
    ]
    twin = ir.Node(node.domain, node.op_type, inputs, attributes.values(), num_outputs=len(node.outputs))
    for output, original in zip(twin.outputs, node.outputs, strict=True):
        output.name = original.name
    return twin


def _type(value: ir.Value | None) -> onnx.TypeProto | None:
    """Returns a value's type: empty for an input that is left out, None if it is not known."""
    if value is None:
        return onnx.TypeProto()
    if value.type is None:
        return None
    info = ir.serde.serialize_value(value)
    return info.type
