"""Keeps attention on its axes where its operands are reshaped ahead of it and its result is reshaped back.

OpenVINO's hardware-independent passes (2026.4) drop both reshapes, also if they change the last two axes: attention
among the channels of [N, C, H, W], read as [N, C, H * W], becomes attention among the H rows of each channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit_openvino.exact.barriers import barrier
from edgekit_openvino.networks import networks_in

OPEN = "?"
"""The text of an open size: two open sizes may differ."""
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")
_MOVES = ("Broadcast", "Concat", "Pad", "Slice", "StridedSlice", "Tile", "Transpose")
"""Operations that may change nothing, or that a second one undoes, if their result has the shape of what they read."""
_NEUTRAL = {"Add": 0, "Divide": 1, "Multiply": 1, "Power": 1, "Subtract": 0}
"""Arithmetic, and the constant operand with which it changes nothing."""


def keep_attention_on_its_axes(network: Any) -> None:
    """Puts a barrier behind attention that the passes would compute along other axes, in an ``openvino.Model``."""
    for each in networks_in(network):
        for product in each.get_ordered_ops():
            if product.get_type_name() != "MatMul" or _made_by(product.input_value(0)) != "Softmax":
                continue
            value = product.output(0)
            matrix = _shape(value)[-2:]
            given = [shape for shape in _shapes_ahead(product.input_value(1)) if shape[-2:] != matrix or OPEN in matrix]
            for reader in value.get_target_inputs():
                if any(shape in given for shape in _shapes_behind(reader)):
                    reader.replace_source_output(barrier(value).output(0))


def _made_by(value: Any) -> str:
    """Returns the type of the operation that computes a value, ahead of operations that the passes may drop."""
    while (given := _given_to_idle(value.get_node())) is not None:
        value = given
    return str(value.get_node().get_type_name())


def _given_to_idle(node: Any) -> Any | None:
    """Returns what an operation reads that the passes may drop before they look for attention; None for any other."""
    operands = [each for each in node.input_values() if each.get_node().get_type_name() != "Constant"]
    if len(operands) != 1:
        return None
    kind, (given,) = node.get_type_name(), operands
    if kind in (*RESHAPES, "Convert", "Identity") or (kind in _MOVES and _shape(given) == _shape(node.output(0))):
        return given
    if kind not in _NEUTRAL or node.get_input_size() != 2:
        return None
    other = next(each for each in node.input_values() if each.get_node().get_type_name() == "Constant")
    return given if (other.get_node().get_data() == _NEUTRAL[kind]).all() else None


def _shape(value: Any) -> list[str]:
    """Returns the sizes of a value as text, open ones too; none if the number of axes is open."""
    shape = value.get_partial_shape()
    return [] if shape.rank.is_dynamic else [str(size) for size in shape]


def _shapes_ahead(value: Any) -> Iterator[list[str]]:
    """Yields the shapes that a value had before it was reshaped."""
    while True:
        node = value.get_node()
        given = node.input_value(0) if _reshapes(node) else _given_to_idle(node)
        if given is None:
            return
        value = given
        yield _shape(value)


def _shapes_behind(reader: Any) -> Iterator[list[str]]:
    """Yields the shapes that a reader, and those that read its result, reshape what it reads to."""
    node = reader.get_node()
    if (reader.get_index() == 0 and _reshapes(node)) or _given_to_idle(node) is not None:
        yield _shape(node.output(0))
        for following in node.output(0).get_target_inputs():
            yield from _shapes_behind(following)


def _reshapes(node: Any) -> bool:
    """Whether an operation keeps the order of elements: a Transpose does so if it moves axes of one element only."""
    if node.get_type_name() != "Transpose" or node.input_value(1).get_node().get_type_name() != "Constant":
        return node.get_type_name() in RESHAPES
    sizes = _shape(node.input_value(0))
    order = [int(axis) for axis in node.input_value(1).get_node().get_data().ravel()]
    moved = [axis for axis in order if sizes and sizes[axis] != "1"]
    return bool(sizes) and moved == sorted(moved)
