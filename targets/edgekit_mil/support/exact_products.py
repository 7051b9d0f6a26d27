"""Convolutions and matrix products of 8-bit integers with 32-bit results, exactly.

Core ML multiplies floating-point numbers only. Sums of products of small integers are exact in float32 as long as no
partial sum can pass 2 ** 24; where one could, the left operand is split into two digits of base 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Unsupported, Value, computed, constant
from edgekit_mil.support.linear_quantization import Granularity, compressed

EXACT_INTEGERS = 1 << 24
"""float32 holds every integer of a smaller magnitude."""
LARGEST_DIFFERENCE = 255
"""Largest difference between two 8-bit integers of one type."""
BASE = 16

Product = Callable[[Var], Var]


def exact_product(left: Var, multiply: Product, largest_sum: float) -> Var:
    """Returns a product in int32.

    Args:
        left: The left operand: integers in float32, at most 255 in magnitude.
        multiply: Multiplies a left operand by the right one, in float32.
        largest_sum: The largest sum of magnitudes of right operands for one result.

    Raises:
        Unsupported: Even a sum over single digits can be too large.
    """
    if largest_sum * LARGEST_DIFFERENCE < EXACT_INTEGERS:
        return mb.cast(x=multiply(left), dtype="int32")
    if largest_sum * BASE >= EXACT_INTEGERS:
        raise Unsupported("its sums can pass 2 ** 24 times 16, beyond what float32 computes exactly in two parts")
    high = mb.floor(x=mb.mul(x=left, y=1.0 / BASE, name=EXACT), name=EXACT)
    low = mb.sub(x=left, y=mb.mul(x=high, y=float(BASE), name=EXACT), name=EXACT)
    digits = [mb.cast(x=multiply(digit), dtype="int32") for digit in (high, low)]
    return mb.add(x=mb.mul(x=digits[0], y=BASE), y=digits[1])


def centred(ctx: Context, x: Value, zero_point: Value | None, axis: int | None) -> Value:
    """``x - zero_point`` as a float32 value of integers; 8-bit constants stay 8-bit in the program.

    Args:
        ctx: The node.
        x: 8-bit integers.
        zero_point: A scalar, or a vector with one number for each index along the axis; None for zero.
        axis: The axis of a ``zero_point`` that is a vector.
    """
    if zero_point is None:
        zero_point = constant(np.zeros((), np.int32), x.dtype)
    count = int(np.prod(zero_point.static_shape))
    granularity = Granularity(tuple(x.shape), None if count == 1 or axis is None else axis % x.rank, 0)
    if x.is_constant and zero_point.is_constant:
        ones = constant(np.ones(zero_point.static_shape, np.float32))
        return compressed(ctx, x, ones, zero_point, granularity, ir.DataType.FLOAT)
    difference = mb.sub(x=x.var, y=granularity.spread_operand(zero_point))
    return computed(mb.cast(x=difference, dtype="fp32"), ir.DataType.FLOAT)


def largest_sum(weights: Value, axes: Sequence[int]) -> float:
    """The largest sum of magnitudes of weights over axes; an upper bound if the weights are computed."""
    if weights.constant is not None:
        return float(np.abs(weights.constant).sum(axis=tuple(axes)).max(initial=0))
    return float(LARGEST_DIFFERENCE * np.prod([weights.static_shape[axis] for axis in axes]))
