"""Operators that only choose or place elements, in an element type for which the reference runtime has a kernel.

PyTorch writes ``torch.where`` of two masks as a Where of booleans and ``torch.eye(n, dtype=torch.bool)`` as an EyeLike
of booleans. The standard allows both; ONNX Runtime has no kernel for either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.execution.reference import is_executable
from edgekit.graph.building import NodeBuilder
from edgekit.model import Model, node_name

_BOOL, _SMALL = ir.DataType.BOOL, (ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT16)
_WIDE = ir.DataType.INT64


@dataclass(frozen=True)
class _Kernels:
    """What an operator reads its elements from, and the types that stand in for those that have no kernel."""

    read: tuple[int, ...]
    types: Mapping[ir.DataType, ir.DataType]
    """A type without a kernel, and one with a kernel that holds all its values."""


_OPERATORS = {
    "EyeLike": _Kernels((0,), dict.fromkeys((_BOOL, *_SMALL), _WIDE)),
    "OneHot": _Kernels((2,), dict.fromkeys((_BOOL, ir.DataType.INT32, *_SMALL), _WIDE)),
    "Trilu": _Kernels((0,), dict.fromkeys(_SMALL, _WIDE)),
    "Unique": _Kernels((0,), dict.fromkeys((_BOOL, ir.DataType.INT32, ir.DataType.UINT8, ir.DataType.INT16), _WIDE)),
    "Where": _Kernels((1, 2), {_BOOL: ir.DataType.UINT8, ir.DataType.INT16: ir.DataType.INT32}),
}
_COMPARISONS = (
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "Not",
    "Or",
    "Xor",
)
_KEEPS_THE_TYPE_OF = {
    **dict.fromkeys(("Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad"), 0),
    **dict.fromkeys(("Reshape", "ScatterElements", "ScatterND", "Slice", "Squeeze", "Tile", "Transpose"), 0),
    **dict.fromkeys(("Trilu", "Unsqueeze"), 0),
    "Where": 1,
}
"""Operators whose result has the type of the input at this place."""


def in_types_of_kernels(model: Model) -> Model:
    """The model with other element types around operators that ONNX Runtime has no kernel for in their own.

    The unchanged model if it runs, or has no such operator.
    """
    if not _lacking(model.graph) or is_executable(model):
        return model
    changed = model.graph_model.clone()
    for node, dtype in _lacking(changed.graph):
        _exchange(node, dtype, model.opset)
    return model.with_graph(changed)


def _lacking(graph: ir.Graph) -> list[tuple[ir.Node, ir.DataType]]:
    """The nodes without a kernel, each with the type of its elements."""
    found = []
    for node in graph.all_nodes():
        if node.op_type in _OPERATORS and not node.domain:
            dtype = _element_type(node)
            if dtype is not None and dtype in _OPERATORS[node.op_type].types:
                found.append((node, dtype))
    return found


def _element_type(node: ir.Node) -> ir.DataType | None:
    if node.op_type == "EyeLike":
        stated = node.attributes.get_int("dtype", 0)
        return ir.DataType(stated) if stated else _type_of(node.inputs[0])
    return next((dtype for place in _OPERATORS[node.op_type].read if (dtype := _type_of(node.inputs[place]))), None)


def _type_of(value: ir.Value | None) -> ir.DataType | None:
    """The type that a value states, or that follows from the nodes that make it: exporters leave types out."""
    while value is not None:
        if value.dtype is not None:
            return value.dtype
        node = value.producer()
        if value.const_value is not None or node is None or node.domain:
            return None if value.const_value is None else value.const_value.dtype
        if node.op_type in _COMPARISONS:
            return _BOOL
        if node.op_type == "ConstantOfShape":
            filled = node.attributes.get_tensor("value", None)
            return ir.DataType.FLOAT if filled is None else filled.dtype
        if node.op_type == "Cast":
            return ir.DataType(node.attributes.get_int("to"))
        place = _KEEPS_THE_TYPE_OF.get(node.op_type)
        value = None if place is None else node.inputs[place]
    return None


def _exchange(node: ir.Node, dtype: ir.DataType, opset: int) -> None:
    """Converts what the node reads to the type that stands in, and its first result back, in place."""
    kernels, home = _OPERATORS[node.op_type], node.graph
    assert isinstance(home, ir.Graph)
    wide = int(kernels.types[dtype])
    build = NodeBuilder(opset, node_name(node))
    inputs = [
        build("Cast", value, to=wide) if place in kernels.read else value for place, value in enumerate(node.inputs)
    ]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    if "dtype" in attributes:
        attributes["dtype"] = wide
    first, *others = build.several(len(node.outputs), node.op_type, *inputs, **attributes)
    results = [build("Cast", first, to=int(dtype)), *others]
    for old, new in zip(node.outputs, results, strict=True):
        new.type, new.shape = old.type, old.shape
    ir.convenience.replace_nodes_and_values(home, node, [node], build.nodes, node.outputs, results)
