"""MatMulBnb4 of ``com.microsoft``: products with weights in 4 bits as bitsandbytes stores them.

Each number is one of sixteen, times the greatest magnitude of its block: the quantiles of a normal distribution (NF4;
Dettmers et al., "QLoRA", 2023, appendix E) or a float of two bits for the exponent and one for the mantissa (FP4). Of
two numbers in a byte the first has the upper four bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.quantized_operators import MICROSOFT

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_MAGNITUDES = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
FP4 = (*_MAGNITUDES, *(-each for each in _MAGNITUDES))
_TYPES = (FP4, NF4)
"""The tables by the attribute ``quant_type``."""


class BlockProduct(Rewrite):
    """A product with the weights as floats, since other devices have no such tables."""

    name: ClassVar[str] = "weights of bitsandbytes as floats"
    op_types: ClassVar[Sequence[str]] = ("MatMulBnb4",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant weights, with a row for each column of the result."""
        packed, greatest = constant_input(node, 1), constant_input(node, 2)
        rows, columns, block = (node.attributes.get_int(name) for name in ("N", "K", "block_size"))
        if packed is None or greatest is None:
            raise InapplicableError("its weights are computed")
        if not node.attributes.get_int("transB", 1):
            raise InapplicableError("its weights are not transposed")
        table = np.array(_TYPES[node.attributes.get_int("quant_type", 1)], np.float32)
        places = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 0xF], axis=-1).reshape(-1)[: rows * columns]
        scales = np.repeat(greatest.reshape(-1).astype(np.float32), block)[: rows * columns]
        weights = (table[places] * scales).reshape(rows, columns).T.astype(greatest.dtype)
        return [build("MatMul", node.inputs[0], np.ascontiguousarray(weights))]
