"""DequantizeLinear with a scale for each block along an axis, where the axis is no whole number of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import shape_of

LEAST_BLOCK = 8
"""The least number of elements in a block: scales of smaller blocks take more room than integers of 4 bits save."""


class WholeBlocks(Rewrite):
    """A shorter last block, or blocks of a vector, as whole blocks of a matrix; the integers do not change.

    The new blocks have the greatest size that divides both the axis and the old blocks. If that is less than
    :data:`LEAST_BLOCK`, the last block is dequantized separately.
    """

    name: ClassVar[str] = "whole blocks of one scale"
    op_types: ClassVar[Sequence[str]] = ("DequantizeLinear",)
    versions: ClassVar[range] = range(21, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether the last block is not whole, or blocks are those of a vector."""
        block, x = node.attributes.get_int("block_size", 0), node.inputs[0]
        if not block or x is None or x.shape is None or not x.shape.is_static():
            return False
        sizes = shape_of(x)
        return len(sizes) == 1 or sizes[node.attributes.get_int("axis", 1)] % block > 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds one DequantizeLinear, or two whose results are concatenated; constants are cut and repeated here."""
        sizes = shape_of(node.inputs[0])
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        block, axis = int(attributes["block_size"]), int(attributes.get("axis", 1)) % len(sizes)
        attributes["axis"] = axis
        size = sizes[axis]
        operands: list[ir.Value | None] = list(node.inputs)
        if len(sizes) == 1:
            operands = [_column(build, operand) for operand in operands]

        def dequantized(begin: int, end: int, length: int) -> ir.Value:
            """Returns the elements from ``begin`` to ``end``, dequantized in blocks of ``length``."""
            x, *others = operands
            if (begin, end) != (0, size):
                x = _taken(build, x, np.arange(begin, end), axis)
            places = np.arange(begin, end, length) // block
            scales = [_taken(build, other, places, axis) for other in others]
            return build("DequantizeLinear", x, *scales, **{**attributes, "block_size": length})

        common = math.gcd(block, size)
        whole = size - size % block
        if common >= LEAST_BLOCK or not whole or not size % block:
            result = dequantized(0, size, common if whole else size)
        else:
            result = build("Concat", dequantized(0, whole, block), dequantized(whole, size, size - whole), axis=axis)
        return [build.squeeze(result, [1]) if len(sizes) == 1 else result]


def _taken(build: NodeBuilder, value: ir.Value | None, places: np.ndarray, axis: int) -> ir.Value | None:
    """Returns the elements at some indices along an axis."""
    if value is None:
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return build.constant(np.take(tensor.numpy(), places, axis))
    if value.dtype is None or value.dtype.bitwidth < 8:
        raise InapplicableError("no operator takes elements of a tensor of less than 8 bits")
    return build("Gather", value, places, axis=axis)


def _column(build: NodeBuilder, vector: ir.Value | None) -> ir.Value | None:
    """Returns a vector as a matrix of one column."""
    if vector is None:
        return None
    tensor = ir.convenience.get_const_tensor(vector)
    if tensor is not None:
        return build.constant(tensor.numpy()[:, np.newaxis])
    column = build.unsqueeze(vector, [1])
    if vector.dtype is not None:
        column.dtype = vector.dtype
    return column
