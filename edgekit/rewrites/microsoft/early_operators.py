"""Operators of ``com.microsoft`` that the standard has under the same or another name, or as one or two operators.

Exporters wrote them before the standard had them. They are in ONNX Runtime's document ContribOperators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.quantized_operators import MICROSOFT

SAME_SINCE = {"GatherND": 11, "Pad": 11, "Trilu": 14}
"""Operators that the standard has with the same inputs and attributes, and the opsets from which it does."""
RANGE_SINCE = 11


class SameOperator(Rewrite):
    """``GatherND``, ``Pad`` and ``Trilu``, which are the standard's."""

    name: ClassVar[str] = "operator of the standard"
    op_types: ClassVar[Sequence[str]] = tuple(SAME_SINCE)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the standard's operator with the node's inputs and attributes."""
        since = SAME_SINCE[node.op_type]
        if build.opset < since:
            raise InapplicableError(f"opset {build.opset} has no {node.op_type} with these inputs")
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        return [build(node.op_type, *node.inputs, **attributes)]


class StandardRange(Rewrite):
    """``Range`` of numbers that may be vectors of one element."""

    name: ClassVar[str] = "range of the standard"
    op_types: ClassVar[Sequence[str]] = ("Range",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the standard's operator; without a step, the step is 1."""
        if build.opset < RANGE_SINCE:
            raise InapplicableError(f"opset {build.opset} has no Range")
        _, dtype = typed(node.inputs[0])
        step = input_at(node, 2)
        ends = [build("Reshape", value, np.array([], np.int64)) for value in node.inputs[:2]]
        by = np.ones((), dtype.numpy()) if step is None else build("Reshape", step, np.array([], np.int64))
        return [build("Range", *ends, by)]


class SlidingParts(Rewrite):
    """``UnfoldTensor``: all parts of a length along an axis, as a new last axis."""

    name: ClassVar[str] = "sliding parts by Gather"
    op_types: ClassVar[Sequence[str]] = ("UnfoldTensor",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Along an axis of known size."""
        x = node.inputs[0]
        if x is None or x.shape is None:
            raise InapplicableError("the shape of its input is not known")
        rank = x.shape.rank()
        axis = node.attributes.get_int("dim", -1) % rank
        size, length = x.shape[axis], node.attributes.get_int("size")
        if not isinstance(size, int):
            raise InapplicableError("how long its axis is is not known")
        starts = np.arange(0, size - length + 1, node.attributes.get_int("step", 1))
        parts = build("Gather", x, starts[:, np.newaxis] + np.arange(length), axis=axis)
        order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
        return [build("Transpose", parts, perm=order)]


class WideProduct(Rewrite):
    """``MatMulInteger16``: a product of integers of 16 bits, summed in 32."""

    name: ClassVar[str] = "product of 16-bit integers in 32"
    op_types: ClassVar[Sequence[str]] = ("MatMulInteger16",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the standard's product of 32-bit integers."""
        return [build("MatMul", *(build("Cast", value, to=int(ir.DataType.INT32)) for value in node.inputs[:2]))]


class FixedPads(Rewrite):
    """``ConvTransposeWithDynamicPads`` whose pads are known."""

    name: ClassVar[str] = "transposed convolution with its pads"
    op_types: ClassVar[Sequence[str]] = ("ConvTransposeWithDynamicPads",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the standard's operator, whose pads are an attribute."""
        pads = constant_input(node, 2)
        if pads is None and input_at(node, 2) is not None:
            raise InapplicableError("its pads are not known")
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        if pads is not None:
            attributes["pads"] = [int(pad) for pad in pads]
        return [build("ConvTranspose", node.inputs[0], node.inputs[1], input_at(node, 3), **attributes)]
