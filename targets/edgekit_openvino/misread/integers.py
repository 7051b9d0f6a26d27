"""Integers, and quantized operators, that OpenVINO computes otherwise."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input
from edgekit.operators.departures import Departure, static_sizes
from edgekit.rewrites.quantized_operators import MICROSOFT, QuantizedChoice, QuantizedElementwise
from edgekit_openvino.misread.conditions import always

WHOLE = (
    *("Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "CumSum", "Div", "MatMul", "Max", "Min", "Mod", "Mul", "Sub"),
    *("Concat", "Expand", "Gather", "GatherElements", "GatherND", "OneHot", "Pad", "ScatterElements", "ScatterND"),
    *("Tile", "Where"),
)
"""Operators that give other integers if a constant is clamped to the range of 32 bits."""
ON_QUANTIZED = (*QuantizedElementwise.op_types, *QuantizedChoice.op_types)


def _has_scales(node: ir.Node, _: int) -> bool:
    sizes = static_sizes(node.inputs[4])
    return sizes is None or bool(np.prod(sizes) != 1)


def _saturates(node: ir.Node, _: int) -> bool:
    """Whether integers of 8 bits are added, subtracted, multiplied, in an equation or not, or shifted to the left."""
    return _is_narrow(node) and node.attributes.get_string("direction", "LEFT") == "LEFT"


def _has_no_opposite(node: ir.Node, _: int) -> bool:
    """Whether the least signed integer of 8 bits may be negated; in 8 bits its negative is itself."""
    value = node.inputs[0]
    return value is not None and value.dtype == ir.DataType.INT8


def _scales_integers(node: ir.Node, _: int) -> bool:
    """Whether integers are multiplied with a fraction."""
    value = node.inputs[0]
    if value is None or value.dtype is None or not value.dtype.is_integer():
        return False
    return not all(node.attributes.get_float(factor, 1.0).is_integer() for factor in ("alpha", "beta"))


def _rounds_what_is_shifted(node: ir.Node, _: int) -> bool:
    """Whether integers of 8 bits and of open sizes are shifted to the right."""
    is_right = node.attributes.get_string("direction", "LEFT") == "RIGHT"
    return _is_narrow(node) and is_right and static_sizes(node.outputs[0]) is None


def _is_narrow(node: ir.Node, _: int = 0) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)


def _reaches_beyond_32_bits(node: ir.Node, _: int) -> bool:
    """Whether a constant leaves the range of signed 32-bit integers; the ends of 64 bits stand for infinity.

    For Max and Min only constants on the side where they decide count.
    """
    numbers = [constant_input(node, place) for place in range(len(node.inputs))]
    below, above = node.op_type != "Max", node.op_type != "Min"
    return any(_is_wide(each, below=below, above=above) for each in numbers)


def _is_wide(numbers: np.ndarray | None, *, below: bool, above: bool) -> bool:
    if numbers is None or numbers.dtype not in (np.int64, np.uint32, np.uint64):
        return False
    narrow, wide = np.iinfo(np.int32), np.iinfo(numbers.dtype)
    is_outside = ((numbers < narrow.min) & below) | ((numbers > narrow.max) & above)
    is_end = (numbers == wide.min) | (numbers == wide.max) if numbers.itemsize > narrow.dtype.itemsize else False
    return bool(np.any(is_outside & ~np.asarray(is_end)))


def _shifts_signed(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype is not None and value.dtype.is_signed()


MISREADINGS = (
    Departure(WHOLE, _reaches_beyond_32_bits, "it computes in 32 bits, and a constant needs more"),
    Departure(("Abs", "Neg"), _has_no_opposite, "8-bit integers saturate instead of wrapping around"),
    Departure(
        ("Add", "BitShift", "Einsum", "Mul", "Sub"), _saturates, "8-bit integers saturate instead of wrapping around"
    ),
    Departure(("BitShift",), _rounds_what_is_shifted, "it rounds shifted 8-bit integers of open sizes"),
    Departure(("BitShift",), _shifts_signed, "it shifts signed integers as unsigned ones"),
    Departure(("Div",), _is_narrow, "it rounds quotients of 8-bit integers in branches and loops"),
    Departure(("Gemm",), _scales_integers, "it cuts off the fractions of factors where it multiplies integers"),
    Departure(("QLinearConv",), _has_scales, "it applies the weights' scales to the input's channels"),
    Departure(("QLinearMatMul",), _has_scales, "it uses a single scale for all of the weights"),
    Departure(
        ON_QUANTIZED, always, "it truncates instead of rounding, and wraps around instead of saturating", MICROSOFT
    ),
)
