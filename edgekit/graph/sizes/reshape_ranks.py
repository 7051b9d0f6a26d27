"""Ranks of the results of Reshapes with a computed shape: the number of elements of that shape.

ONNX's inference (1.23) leaves the rank unknown before opset 14 if it cannot follow how the shape is computed.
"""

from __future__ import annotations

import onnx_ir as ir


def fill_in_ranks(graph_model: ir.Model) -> bool:
    """Sets unknown ranks, and sizes that are constants in the computed shape, in place.

    Returns:
        Whether there were any.
    """
    changed = False
    for node in graph_model.graph.all_nodes():
        if node.domain or node.op_type != "Reshape" or len(node.inputs) < 2:
            continue
        (output,) = node.outputs
        if output.shape is None and output.type is not None and (shape := _shape(node)) is not None:
            output.shape, changed = ir.Shape(shape), True
    return changed


def _shape(node: ir.Node) -> list[int | None] | None:
    numbers = _numbers(node.inputs[1])
    if numbers is None:
        return None
    x = node.inputs[0]
    given = None if x is None or x.shape is None else list(x.shape.dims)
    keeps = node.attributes.get_int("allowzero", 0) == 0
    return [
        _kept(given, axis) if number == 0 and keeps else None if number == -1 else number
        for axis, number in enumerate(numbers)
    ]


def _kept(given: list[int | ir.SymbolicDim] | None, axis: int) -> int | None:
    size = given[axis] if given is not None and axis < len(given) else None
    return size if isinstance(size, int) else None


def _numbers(shape: ir.Value | None) -> list[int | None] | None:
    """Returns the numbers of a computed shape, None for one that is not constant; None if their count is unknown."""
    if shape is None or shape.shape is None or not shape.shape.is_static() or len(shape.shape) != 1:
        return None
    maker, constant = shape.producer(), ir.convenience.get_const_tensor(shape)
    if constant is not None:
        return [int(number) for number in constant.numpy()]
    if maker is None or maker.domain or maker.op_type != "Concat":
        return [None] * int(shape.shape.numpy()[0])
    parts = [_numbers(part) for part in maker.inputs]
    return None if any(part is None for part in parts) else [number for part in parts for number in part or ()]
