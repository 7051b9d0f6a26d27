"""Operators on quantized tensors as operators on the real numbers, whose results are quantized again.

ONNX Runtime's quantizer writes them in the format ``QOperator``: ``QLinearConv`` and ``QLinearMatMul`` of the standard,
and a dozen of its own (operators of the domain ``com.microsoft`` in ONNX Runtime's documentation). Runtimes that know
none of these operators know QuantizeLinear and DequantizeLinear, which are put around a float operator here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import OPSETS, InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import shape_of

MICROSOFT = "com.microsoft"
POOLS_INTEGERS = 12
"""Since this opset MaxPool takes integers of 8 bits."""
ALONG_AN_AXIS = 13
"""Since this opset DequantizeLinear takes a scale for each channel."""


class QuantizedProduct(Rewrite):
    """Convolutions and matrix products; the scale of an integer bias is the product of both scales."""

    name: ClassVar[str] = "quantized product between float ones"
    gives_steps: ClassVar[bool] = True
    op_types: ClassVar[Sequence[str]] = ("QLinearConv", "QLinearMatMul")
    versions: ClassVar[range] = range(10, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For weights with one scale, or one for each output channel or column."""
        x = channels_second(build, node, real(build, node, 0))
        if node.op_type == "QLinearMatMul":
            product = build("MatMul", x, real(build, node, 3, axis=-1))
            return [stored(build, node, product, 6)]
        bias = biased(build, node, 8, 1.0) if input_at(node, 8) is not None else None
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        attributes.pop("channels_last", 0)
        product = build("Conv", x, real(build, node, 3, axis=0), *([] if bias is None else [bias]), **attributes)
        return [stored(build, node, channels_back(build, node, product), 6)]


class QuantizedConvolution(QuantizedProduct):
    """``QLinearConv`` of ONNX Runtime, whose channels may come last."""

    op_types: ClassVar[Sequence[str]] = ("QLinearConv",)
    domain: ClassVar[str] = MICROSOFT
    versions: ClassVar[range] = OPSETS


class QuantizedGemm(Rewrite):
    """``alpha * (A' B' + C)`` with C in int32; the result is quantized if it has a scale."""

    name: ClassVar[str] = "quantized Gemm between float ones"
    gives_steps: ClassVar[bool] = True
    op_types: ClassVar[Sequence[str]] = ("QGemm",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For weights with one scale, or one for each column of the product."""
        transposed = node.attributes.get_int("transB", 0)
        alpha = node.attributes.get_float("alpha", 1.0)
        operands = [real(build, node, 0), real(build, node, 3, axis=0 if transposed else 1)]
        if input_at(node, 6) is not None:
            operands.append(biased(build, node, 6, alpha))
        product = build("Gemm", *operands, alpha=alpha, transA=node.attributes.get_int("transA", 0), transB=transposed)
        return [product if input_at(node, 7) is None else stored(build, node, product, 7)]


class QuantizedElementwise(Rewrite):
    """Sums, products, activations and averages."""

    name: ClassVar[str] = "quantized operator between float ones"
    gives_steps: ClassVar[bool] = True
    op_types: ClassVar[Sequence[str]] = (
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearLeakyRelu",
        "QLinearSoftmax",
        "QLinearAveragePool",
        "QLinearGlobalAveragePool",
    )
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """With channels second, or last where windows are averaged."""
        operator = node.op_type.removeprefix("QLinear")
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        attributes.pop("channels_last", 0)
        if operator in ("Add", "Mul"):
            return [stored(build, node, build(operator, real(build, node, 0), real(build, node, 3)), 6)]
        x = channels_second(build, node, real(build, node, 0))
        if operator == "Softmax" and int(attributes.pop("opset", 13)) < ALONG_AN_AXIS:
            rank = _rank(node.inputs[0])
            if int(attributes.get("axis", 1)) % rank != rank - 1:
                raise InapplicableError("it normalizes several axes at once")
        return [stored(build, node, channels_back(build, node, build(operator, x, **attributes)), 3)]


class ChannelsLastPool(Rewrite):
    """``NhwcMaxPool``: the greatest integers of windows, with channels last."""

    name: ClassVar[str] = "pool with channels second"
    op_types: ClassVar[Sequence[str]] = ("NhwcMaxPool",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Between two transpositions."""
        if build.opset < POOLS_INTEGERS:
            raise InapplicableError(f"opset {build.opset} pools no integers")
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        x = input_at(node, 0)
        assert x is not None
        rank = _rank(x)
        pooled = build("MaxPool", build("Transpose", x, perm=_channels_moved(rank)), **attributes)
        return [build("Transpose", pooled, perm=_channels_moved(rank, back=True))]


class QuantizedChoice(Rewrite):
    """Tensors one after the other, and one of two by a condition."""

    name: ClassVar[str] = "quantized choice between float ones"
    gives_steps: ClassVar[bool] = True
    op_types: ClassVar[Sequence[str]] = ("QLinearConcat", "QLinearWhere")
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of any number of tensors."""
        if node.op_type == "QLinearWhere":
            chosen = build("Where", node.inputs[0], real(build, node, 1), real(build, node, 4))
            return [stored(build, node, chosen, 7)]
        parts = [real(build, node, place) for place in range(2, len(node.inputs), 3)]
        return [stored(build, node, build("Concat", *parts, axis=node.attributes.get_int("axis")), 0)]


def real(build: NodeBuilder, node: ir.Node, place: int, axis: int = 0) -> ir.Value:
    """Returns the real numbers of a quantized input, which is followed by its scale and its zero point.

    Args:
        build: Makes the nodes.
        node: The node with the input.
        place: The index of the input.
        axis: The axis of the scales, if there are several.
    """
    x, scale, zero_point = (input_at(node, at) for at in range(place, place + 3))
    dtype = next((value.dtype for value in (x, zero_point) if value is not None and value.dtype is not None), None)
    if x is None or scale is None or scale.shape is None or dtype is None:
        raise InapplicableError("what it is fed is not known")
    if not _is_many(scale) and dtype.itemsize == 1:
        return build("DequantizeLinear", x, single(build, scale), single(build, zero_point))
    rank = len(shape_of(x))
    if scale.shape.rank() > 1:
        raise InapplicableError("its scales have several dimensions")
    if dtype.itemsize == 1 and build.opset >= ALONG_AN_AXIS:
        return build("DequantizeLinear", x, scale, along(build, zero_point, scale), axis=axis % rank)
    others = [each for each in range(rank) if each != axis % rank]
    numbers = build.cast(x, ir.DataType.FLOAT)
    if zero_point is not None:
        zeros = build.cast(zero_point, ir.DataType.FLOAT)
        numbers = build("Sub", numbers, build.unsqueeze(zeros, others) if _is_many(zero_point) else zeros)
    return build("Mul", numbers, build.unsqueeze(scale, others) if _is_many(scale) else scale)


def stored(build: NodeBuilder, node: ir.Node, x: ir.Value, place: int) -> ir.Value:
    """Returns real numbers, quantized by the scale and the zero point at ``place`` among the inputs."""
    scale, zero_point = input_at(node, place), input_at(node, place + 1)
    if scale is None or zero_point is None or scale.shape is None or _is_many(scale):
        raise InapplicableError("its result has no scale, or several")
    if zero_point.dtype is not None and zero_point.dtype.itemsize != 1:
        raise InapplicableError(f"it makes {zero_point.dtype}")
    return build("QuantizeLinear", x, single(build, scale), single(build, zero_point))


def biased(build: NodeBuilder, node: ir.Node, place: int, alpha: float) -> ir.Value:
    """Returns the real numbers of a bias in int32, whose scale is the product of both operands' scales, times alpha."""
    bias, x_scale, w_scale = input_at(node, place), input_at(node, 1), input_at(node, 4)
    assert bias is not None
    scale = build("Mul", x_scale, w_scale)
    return build(
        "Mul", build.cast(bias, ir.DataType.FLOAT), scale if alpha == 1 else build("Mul", scale, np.float32(alpha))
    )


def channels_second(build: NodeBuilder, node: ir.Node, x: ir.Value) -> ir.Value:
    """Returns a node's input with channels second, if the node has them last."""
    if not node.attributes.get_int("channels_last", 0):
        return x
    return build("Transpose", x, perm=_channels_moved(_rank(node.inputs[0])))


def channels_back(build: NodeBuilder, node: ir.Node, x: ir.Value) -> ir.Value:
    """Returns a result with channels second in the node's own order of axes."""
    if not node.attributes.get_int("channels_last", 0):
        return x
    return build("Transpose", x, perm=_channels_moved(_rank(node.inputs[0]), back=True))


def _channels_moved(rank: int, *, back: bool = False) -> list[int]:
    """Returns the order of axes that moves channels from the end to the second place, or back."""
    return [0, *range(2, rank), 1] if back else [0, rank - 1, *range(1, rank - 1)]


def _rank(x: ir.Value | None) -> int:
    if x is None or x.shape is None:
        raise InapplicableError("how many axes its input has is not known")
    return x.shape.rank()


def single(build: NodeBuilder, value: ir.Value | None) -> ir.Value | None:
    """Returns a vector of one number as a scalar, which DequantizeLinear takes if there is one scale."""
    if value is None or value.shape is None or value.shape.rank() == 0:
        return value
    return build.squeeze(value, [0])


def along(build: NodeBuilder, zero_point: ir.Value | None, scale: ir.Value) -> ir.Value | None:
    """Returns as many zero points as there are scales."""
    if zero_point is None or _is_many(zero_point) or not _is_many(scale):
        return zero_point
    assert scale.shape is not None
    return build("Expand", zero_point, [int(size) for size in scale.shape.numpy()])


def _is_many(value: ir.Value) -> bool:
    return value.shape is not None and value.shape.rank() > 0 and value.shape.numpy() != (1,)
