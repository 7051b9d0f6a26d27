"""Checks whether a node meets the conditions of a device's table for its operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from edgekit.graph.nodes import input_at
from edgekit.model import dtype_name
from edgekit.operators.hints import since_version
from edgekit_onnxruntime.devices import Operator, Table


@dataclass(frozen=True)
class UnmetCondition:
    """A condition that a node fails."""

    reason: str
    hint: str


def unmet_conditions(node: ir.Node, operator: Operator, table: Table, opset: int) -> Iterator[UnmetCondition]:
    """The conditions that keep a device from supporting the node, although its table has the operator.

    Args:
        node: A node of a graph whose shapes were inferred.
        operator: The table's entry for its operator.
        table: The table.
        opset: The version of the node's domain that the model imports.
    """
    wrong_version = list(_version(node, operator, opset))
    yield from wrong_version or _types(node, operator, opset)
    first = node.inputs[0] if node.inputs else None
    if operator.ranks and first is not None and first.shape is not None and first.shape.rank() not in operator.ranks:
        allowed = " or ".join(map(str, operator.ranks))
        yield UnmetCondition(
            f"its first input has {first.shape.rank()} dimensions, not {allowed}",
            f"reshape around it so that its input has {allowed} dimensions",
        )
    for index in operator.constant:
        value = input_at(node, index)
        if value is not None and not is_constant(value):
            yield UnmetCondition(
                f"input {value.name!r} is not constant", f"make {value.name!r} a constant of the model"
            )
    for index in operator.absent:
        value = input_at(node, index)
        if value is not None:
            yield UnmetCondition(f"it has input {value.name!r}", f"export it without its input {index + 1}")
    for name, expected in operator.attributes.items():
        found = _attribute(node, name, opset)
        if found is not None and found != expected:
            yield UnmetCondition(f"{name} is {found}, not {expected}", f"export it with {name} = {expected}")
    if table.fixed_shapes and has_open_shapes(node):
        yield UnmetCondition("a shape that it reads is not fixed", shapes_hint(node))


FIX_SHAPES = "fix the inputs' shapes with --dim or --shape"
_KNOWN_LATE = (
    "the inputs' shapes are fixed, and this one is known when the model runs: export the model so that it is fixed, or "
    "cut the part off with `edgekit extract` where it stands at the end"
)


def shapes_hint(node: ir.Node) -> str:
    """The hint for a node that reads a shape that is not fixed."""
    inputs = node.graph.inputs if node.graph is not None else ()
    fixed = all(value.shape is not None and value.shape.is_static() for value in inputs)
    return _KNOWN_LATE if fixed else FIX_SHAPES


def has_open_shapes(node: ir.Node) -> bool:
    """Whether the node reads a tensor with a dimension that is known to be open."""
    return any(value is not None and value.shape is not None and not value.shape.is_static() for value in node.inputs)


def is_constant(value: ir.Value) -> bool:
    """Whether a value is a constant, including one that is stored quantized behind DequantizeLinear."""
    if value.is_initializer() or value.const_value is not None:
        return True
    producer = value.producer()
    if producer is None or producer.domain:
        return False
    if producer.op_type == "DequantizeLinear" and producer.inputs[0] is not None:
        return is_constant(producer.inputs[0])
    return producer.op_type == "Constant"


def _version(node: ir.Node, operator: Operator, opset: int) -> Iterator[UnmetCondition]:
    version = since_version(node, opset)
    if version is None or not operator.opsets:
        return
    if not any(first <= version and (last is None or version <= last) for first, last in operator.opsets):
        taken = ", ".join(_span(first, last) for first, last in operator.opsets)
        yield UnmetCondition(
            f"version {version} of the operator is not among those that are taken ({taken})",
            f"export the model with an opset whose {node.op_type} has one of the versions {taken}",
        )


def _types(node: ir.Node, operator: Operator, opset: int) -> Iterator[UnmetCondition]:
    """The unmet condition if no kernel of the node's version supports its types; unknown types count as supported."""
    version = since_version(node, opset)
    kernels = [kernel for kernel in operator.kernels if version is not None and kernel.first <= version <= kernel.last]
    if not kernels:
        return
    found = _types_by_parameter(node, opset)
    failing = [
        [name for name, types in kernel.types.items() if found.get(name, set()) - {*types}] for kernel in kernels
    ]
    if all(failing):
        names = min(failing, key=len)
        has = ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in names)
        taken = sorted({text for kernel in kernels for name in names for text in kernel.types.get(name, ())})
        yield UnmetCondition(
            f"there is no kernel for its types ({has}; those for {' or '.join(taken)})",
            "insert a Cast before it, to a type that has a kernel",
        )


def _types_by_parameter(node: ir.Node, opset: int) -> dict[str, set[str]]:
    """The types of a node's values, by the type parameters of its operator's schema."""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return {}
    found: dict[str, set[str]] = {}
    for values, formal in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for place, value in enumerate(values):
            if formal and value is not None and value.dtype is not None:
                name = formal[min(place, len(formal) - 1)].type_str
                found.setdefault(name, set()).add(dtype_name(value.dtype))
    return found


def _span(first: int, last: int | None) -> str:
    if last is None:
        return f"{first} and newer"
    return str(first) if first == last else f"{first} to {last}"


def _attribute(node: ir.Node, name: str, opset: int) -> Any:
    """The attribute's value, or the standard's default if the node does not set it; None if there is neither."""
    if name in node.attributes:
        return node.attributes[name].value
    try:
        default = onnx.defs.get_schema(node.op_type, opset, node.domain).attributes[name].default_value
    except (onnx.defs.SchemaError, KeyError):
        return None
    return ir.serde.deserialize_attribute(default).value if default.name else None
