"""Reductions that runtimes refuse for some types or sizes, by reductions that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import rank_of, typed

SPATIAL = 2
"""The axes from this one on are those of a picture."""


class SummedPool(Rewrite):
    """``GlobalLpPool`` as the root of a sum of powers."""

    name: ClassVar[str] = "global pool by a sum"
    op_types: ClassVar[Sequence[str]] = ("GlobalLpPool",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of a picture of any size."""
        x, dtype = typed(node.inputs[0])
        axes = list(range(SPATIAL, rank_of(x)))
        if not axes:
            raise InapplicableError("its input has no axes beside batch and channels")
        power = node.attributes.get_int("p", 2)
        if power == 1:
            return [build.reduce("ReduceSum", build("Abs", x), axes)]
        if power == 2:
            return [build("Sqrt", build.reduce("ReduceSum", build("Mul", x, x), axes))]
        powers = build("Pow", build("Abs", x), np.asarray(power, dtype.numpy()))
        return [build("Pow", build.reduce("ReduceSum", powers, axes), np.asarray(1 / power, dtype.numpy()))]


class NarrowExtreme(Rewrite):
    """``ReduceMax`` and ``ReduceMin`` of 8-bit integers, in 32 bits."""

    name: ClassVar[str] = "extreme of 8-bit integers in 32 bits"
    op_types: ClassVar[Sequence[str]] = ("ReduceMax", "ReduceMin")

    def matches(self, node: ir.Node) -> bool:
        """Whether integers have 8 bits."""
        value = node.inputs[0]
        return value is not None and value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Over all axes, or over the given ones, constant or not."""
        x, dtype = typed(node.inputs[0])
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        widened = build.cast(x, ir.DataType.INT32)
        return [build.cast(build(node.op_type, widened, *node.inputs[1:], **attributes), dtype)]
