"""What the elements of a short list of numbers are, one by one: constants, sizes of tensors, or computed otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.values import INTEGERS, Size, constant_of, source

Element = int | float | Size | None
"""A constant; a tensor's size along an axis if it is not fixed; None for an element computed otherwise."""

_SAME = frozenset(["Identity", "Reshape", "Squeeze", "Unsqueeze"])
"""Operators that keep the elements and their order."""


def elements_of(value: ir.Value) -> Sequence[Element] | None:
    """Returns the elements of a list, or the one of a scalar, or None if the number of elements is unknown."""
    if value.shape is None or len(value.shape) > 1:
        return None
    constant, node = constant_of(value), value.producer()
    if constant is not None:
        return [number.item() for number in constant.reshape(-1)]
    found = None if node is None or node.domain else _made(node)
    if found is not None or not value.shape.is_static():
        return found
    return [None] * int(np.prod(value.shape.numpy()))


def _made(node: ir.Node) -> Sequence[Element] | None:
    """Returns the elements of a node's result, or None for operators that are not evaluated."""
    values = [value for value in node.inputs if value is not None]
    if not values or len(values) < len(node.inputs):
        return None
    if node.op_type == "Shape":
        return _sizes(values[0], node.attributes.get_int("start", 0), node.attributes.get_int("end", None))
    if node.op_type == "Concat":
        parts = [elements_of(value) for value in values]
        return None if None in parts else [element for part in parts for element in part or ()]
    if node.op_type in _SAME:
        return elements_of(values[0])
    if node.op_type == "Cast":
        elements = elements_of(values[0])
        is_exact = node.attributes["to"].as_int() in INTEGERS and values[0].dtype in INTEGERS
        return elements if elements is None or is_exact else [None] * len(elements)
    if node.op_type in ("Gather", "Slice"):
        return _chosen(node, values)
    return None


def _sizes(tensor: ir.Value, start: int, end: int | None) -> Sequence[Element] | None:
    if tensor.shape is None:
        return None
    sizes = [Size(source(tensor), axis) for axis in range(len(tensor.shape))]
    dims = [dim if isinstance(dim, int) else size for dim, size in zip(tensor.shape, sizes, strict=True)]
    return dims[start:end]


def _chosen(node: ir.Node, values: Sequence[ir.Value]) -> Sequence[Element] | None:
    """Returns the elements that constant indices or borders select, or None if they are not constant."""
    elements, chosen = elements_of(values[0]), [constant_of(value) for value in values[1:]]
    numbers = [[int(number) for number in array.reshape(-1)] for array in chosen if array is not None]
    if elements is None or not numbers or len(numbers) < len(chosen):
        return None
    if node.op_type == "Gather":
        is_inside = all(-len(elements) <= place < len(elements) for place in numbers[0])
        return [elements[place] for place in numbers[0]] if is_inside else None
    if len(numbers) < 2:
        return None
    (start,), (end,) = numbers[:2]
    (step,) = numbers[3] if len(numbers) > 3 else [1]
    return elements[start:end:step]
