"""GatherBlockQuantized of ``com.microsoft``: rows of a table whose blocks have scales, as language models store words.

By ONNX Runtime's document ContribOperators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.quantized_operators import MICROSOFT

BLOCKS_SINCE = 21
"""The opset from which DequantizeLinear has blocks."""
_BYTE = 8


class BlockLookup(Rewrite):
    """A table that is dequantized in blocks, and a lookup in it."""

    name: ClassVar[str] = "lookup in dequantized blocks"
    op_types: ClassVar[Sequence[str]] = ("GatherBlockQuantized",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The table stays in 4 or 8 bits; two numbers of a byte become two elements."""
        if build.opset < BLOCKS_SINCE:
            raise InapplicableError(f"opset {build.opset} has no blocks of quantized numbers")
        table, scales = _constant(node.inputs[0]), input_at(node, 2)
        bits = node.attributes.get_int("bits", 4)
        if table is None or scales is None or scales.shape is None or not scales.shape.is_static():
            raise InapplicableError("its table, or the size of its scales, is not known")
        zero_points = input_at(node, 3)
        steps = None if zero_points is None else _constant(zero_points)
        if zero_points is not None and steps is None:
            raise InapplicableError("its zero points are not known")
        sizes = tuple(scales.shape.numpy())
        if table.dtype == np.uint8:
            table = elements(table, bits)
            middle = np.full(sizes, 1 << (bits - 1), table.dtype)
            steps = middle if steps is None else elements(steps, bits)[..., : sizes[-1]]
        numbers = build(
            "DequantizeLinear",
            table,
            scales,
            steps,
            axis=node.attributes.get_int("quantize_axis", 1),
            block_size=node.attributes.get_int("block_size", 128),
        )
        return [build("Gather", numbers, node.inputs[1], axis=node.attributes.get_int("gather_axis", 0))]


def _constant(value: ir.Value | None) -> np.ndarray | None:
    """Returns the numbers of a value that is a constant, or a reshaped one; else None."""
    if value is None:
        return None
    tensor, node = ir.convenience.get_const_tensor(value), value.producer()
    if tensor is not None:
        return tensor.numpy()
    if node is None or node.domain or node.op_type != "Reshape":
        return None
    before, shape = _constant(node.inputs[0]), _constant(node.inputs[1])
    if before is None or shape is None:
        return None
    kept = [before.shape[place] if size == 0 else int(size) for place, size in enumerate(shape)]
    return before.reshape(kept)


def elements(packed: np.ndarray, bits: int) -> np.ndarray:
    """Returns the numbers in bytes: two of 4 bits, the lower ones first, or one of 8 bits."""
    if bits == _BYTE:
        return packed
    pairs = np.stack([packed & 0xF, packed >> 4], axis=-1)
    return pairs.reshape(*packed.shape[:-1], -1).astype(ir.DataType.UINT4.numpy())
