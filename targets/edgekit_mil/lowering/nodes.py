"""Nodes as the lowering meets them: their names, schemas and attributes within the bodies that enclose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir

from edgekit_mil.core.values import Value
from edgekit_mil.lowering.function_bodies import STANDARD_DOMAINS

PATH_SEPARATOR = " > "
"""Separates the names of a node and of the nodes whose bodies it is in; names themselves often contain slashes."""


@dataclass
class Scope:
    """The values that nodes can read, the opset versions that apply, and the values of attribute references."""

    values: dict[ir.Value, Value | None]
    """None for a value behind a gap."""
    opsets: Mapping[str, int]
    attributes: Mapping[str, ir.Attr] = field(default_factory=dict)
    left_out: set[ir.Value] = field(default_factory=set)
    """The inputs of a function body that its caller leaves out."""
    path: tuple[str, ...] = ()
    """Names of the nodes whose bodies enclose this scope."""


def mil_name(name: str) -> str:
    """An ONNX name as a MIL identifier: letters, digits and underscores, not starting with a digit."""
    cleaned = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    return f"_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


def domain_of(node: ir.Node) -> str:
    """The node's domain; the standard one is empty."""
    return "" if node.domain in STANDARD_DOMAINS else node.domain


def qualified(node: ir.Node) -> str:
    """The operator with its domain where that is not the standard one."""
    domain = domain_of(node)
    return f"{domain}.{node.op_type}" if domain else node.op_type


def node_name(node: ir.Node, scope: Scope) -> str:
    """The node's name, or its first output's, with the nodes around it."""
    own = node.name or next((value.name for value in node.outputs if value.name), "") or node.op_type
    return PATH_SEPARATOR.join((*scope.path, own))


def is_used(output: ir.Value) -> bool:
    """Whether anything reads an output."""
    return bool(output.name) and (bool(output.uses()) or output.is_graph_output())


def schema_of(node: ir.Node, opsets: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    """The schema of the node's operator at the imported opset version; None if onnx has no such schema."""
    domain = domain_of(node)
    version = node.version if node.version is not None else opsets.get(domain, opsets.get("ai.onnx", 0) or 0)
    try:
        return onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def node_is_plain(node: ir.Node) -> bool:
    """Whether no attribute of the node refers to an attribute of the function around it."""
    return not any(attr.is_ref() for attr in node.attributes.values())


def bound_attributes(node: ir.Node, scope: Scope) -> dict[str, ir.Attr]:
    """The node's attributes with references replaced by their values; a reference without a value is left out."""
    bound = {}
    for name, attr in node.attributes.items():
        if not attr.is_ref():
            bound[name] = attr
        elif attr.ref_attr_name is not None and attr.ref_attr_name in scope.attributes:
            actual = scope.attributes[attr.ref_attr_name]
            bound[name] = ir.Attr(name, actual.type, actual.value)
    return bound


def rebound(node: ir.Node, attributes: Mapping[str, ir.Attr], given: Sequence[bool] | None = None) -> ir.Node:
    """A detached copy of the node with these attributes and its values' names.

    Args:
        node: The node.
        attributes: The copy's attributes.
        given: For every input whether it is there; by default those that the node names.
    """
    there = [value is not None for value in node.inputs] if given is None else given
    inputs = [
        ir.Value(name=value.name) if known and value is not None else None
        for value, known in zip(node.inputs, there, strict=False)
    ]
    outputs = [ir.Value(name=value.name) for value in node.outputs]
    return ir.Node(node.domain, node.op_type, inputs, attributes.values(), outputs=outputs, name=node.name)


def attribute_value(attr: ir.Attr) -> Any:
    """An attribute as plain Python: numbers, texts, lists of them, NumPy arrays for tensors, graphs as they are."""
    value = attr.value
    if attr.type is ir.AttributeType.TENSOR:
        return value.numpy()
    if attr.type is ir.AttributeType.TENSORS:
        return [tensor.numpy() for tensor in value]
    if isinstance(value, tuple | list):
        return list(value)
    return value
