"""Operations on 32-bit integers that OpenVINO's CPU plugin computes in float32, made exact.

Its ReLU turns 16777217 into 16777216, and 2147483647 even into a negative number; 3 to the power of 16 is 43046720, and
reductions and products of matrices are summed up in float32 (seen in OpenVINO 2026.4). Sums and products of two
integers, cumulative sums, maxima of two and bitwise operations are exact; results that leave 32 bits wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgekit_openvino.exact.integer_comparisons import is_small
from edgekit_openvino.exact.integer_quotients import IN_FLOATS, may_be_large, number_like
from edgekit_openvino.exact.replacing import put_in_place_of

LIMITS = np.iinfo(np.int32)
LOW_BITS = 0xFFFF
"""The lower 16 bits of an integer; float32 holds these 16 bits exactly, and likewise the upper 16."""
MOST_PRODUCTS = 1 << 20
"""The most products of two integers, of 4 bytes each, that may be held in memory before they are summed up."""
EXPONENT_BITS = 6
"""Bits of exponents; powers of greater ones leave 32 bits, except those of 0, 1 and -1, which the last bit decides."""
OF_8_BITS = ("boolean", "i8", "u8")
HANDS_ON = ("Convert", "Reshape", "Squeeze", "Subtract", "Transpose", "Unsqueeze")


def keep_integer_kernel(operation: Any) -> bool:
    """Makes an operation on integers exact where they may be large; names stay.

    Args:
        operation: One of :data:`KERNELS` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    if operation.get_element_type().get_type_name() not in IN_FLOATS or not may_be_large(operation):
        return False
    exact = KERNELS[operation.get_type_name()](operation)
    if exact is not None:
        put_in_place_of(operation, exact)
    return exact is not None


def _rectified(operation: Any) -> Any:
    from openvino import opset13

    return opset13.maximum(operation.input_value(0), number_like(operation, 0))


def _clipped(operation: Any) -> Any:
    from openvino import opset13

    low, high = (min(max(float(operation.get_attributes()[bound]), LIMITS.min), LIMITS.max) for bound in ("min", "max"))
    raised = opset13.maximum(operation.input_value(0), number_like(operation, int(low)))
    return _minimum(raised.output(0), number_like(operation, int(high)).output(0))


def _limited(operation: Any) -> Any | None:
    """Returns an exact Minimum with a limit beside a Maximum with one, of which the plugin makes a Clamp; else None."""
    sources = [port.get_node() for port in operation.input_values()]
    readers = [port.get_node() for port in operation.output(0).get_target_inputs()]
    others = [_limit(node) for node in (*sources, *readers) if node.get_type_name() == "Maximum"]
    limit, other_limits = _limit(operation), [other for other in others if other is not None]
    if limit is None or not other_limits or all(map(is_small, [limit, *other_limits])):
        return None
    return _minimum(*operation.input_values())


def _limit(operation: Any) -> Any | None:
    """Returns the first operand that is a constant, or None if there is none."""
    constants = [port for port in operation.input_values() if port.get_node().get_type_name() == "Constant"]
    return constants[0] if constants else None


def _minimum(one: Any, other: Any) -> Any:
    """Returns the lesser of two integers x by the maximum of -1 - x, which is x with all bits inverted."""
    from openvino import opset13

    last = number_like(one, -1)
    return opset13.subtract(last, opset13.maximum(opset13.subtract(last, one), opset13.subtract(last, other)))


def _power(operation: Any) -> Any:
    """Returns the power by repeated squaring: the product of those squares that the exponent's bits select."""
    from openvino import opset13

    base, exponent = operation.input_value(0), operation.input_value(1)
    one, none = number_like(operation, 1), number_like(operation, 0)
    last = opset13.bitwise_and(exponent, one)
    positive = opset13.maximum(exponent, opset13.negative(exponent))
    bounded = opset13.minimum(positive, opset13.add(last, number_like(operation, 2**EXPONENT_BITS - 2)))
    result = one
    for bit in range(EXPONENT_BITS):
        is_set = opset13.not_equal(opset13.bitwise_and(bounded, number_like(operation, 1 << bit)), none)
        factor = opset13.add(one, opset13.multiply(_as_integer(is_set, operation), opset13.subtract(base, one)))
        result = opset13.multiply(result, factor)
        base = opset13.multiply(base, base)
    amount = opset13.multiply(operation.input_value(0), operation.input_value(0))
    below_one = opset13.logical_and(opset13.less(exponent, none), opset13.not_equal(amount, one))
    return opset13.multiply(result, opset13.subtract(one, _as_integer(below_one, operation)))


def _extreme(name: str) -> Callable[[Any], Any]:
    def reduced(operation: Any) -> Any:
        """Returns the extreme of the upper bits, plus that of the lower bits of the elements with these upper bits."""
        from openvino import opset13

        value, axes = operation.input_value(0), operation.input_value(1)
        reduce = getattr(opset13, name)
        low = opset13.bitwise_and(value, number_like(operation, LOW_BITS))
        upper = opset13.subtract(value, low)
        kept = reduce(upper, axes, keep_dims=True)
        other = number_like(operation, -1 if name == "reduce_max" else LOW_BITS + 1)
        candidates = opset13.select(opset13.equal(upper, kept), low, other)
        total = opset13.add(kept, reduce(candidates, axes, keep_dims=True))
        return total if operation.get_attributes()["keep_dims"] else opset13.squeeze(total, axes)

    return reduced


def _sum(operation: Any) -> Any | None:
    """Returns the last cumulative sum; None if axes are computed or none, the rank is open, or there are 8 bits."""
    from openvino import opset13

    value, axes = operation.input_value(0), operation.input_value(1).get_node()
    rank = value.get_partial_shape().rank
    if axes.get_type_name() != "Constant" or rank.is_dynamic or _is_of_8_bits(value):
        return None
    numbers = sorted({int(axis) % rank.get_length() for axis in axes.get_data().reshape(-1)}, reverse=True)
    if not numbers:
        return None
    total = opset13.abs(value).output(0) if operation.get_type_name() == "ReduceL1" else value
    for axis in numbers:
        total = _summed(total, axis).output(0)
    if operation.get_attributes()["keep_dims"]:
        return opset13.unsqueeze(total, opset13.constant(np.array(numbers[::-1], np.int64)))
    return total.get_node()


def _summed(value: Any, axis: int) -> Any:
    """Returns the sum along an axis, and drops this axis."""
    from openvino import opset13

    shape = value.get_partial_shape()
    axis %= len(shape)
    if shape[axis].is_dynamic or shape[axis].get_length() == 0:  # a zero in front, so that there is a last sum
        before = np.eye(len(shape), dtype=np.int64)[axis]
        none = np.zeros((), np.int32)
        value = opset13.pad(value, before, np.zeros_like(before), "constant", opset13.convert_like(none, value))
    sums = opset13.cumsum(value, np.array(axis, np.int64))
    return opset13.gather(sums, np.array(-1, np.int64), np.array(axis, np.int64))


def _product(operation: Any) -> Any | None:
    """Returns sums of products; None if these are too many, sizes are open, or of 8 bits, whose rounding is known."""
    from openvino import opset13

    attributes, shapes = operation.get_attributes(), [port.get_partial_shape() for port in operation.input_values()]
    if any(not shape.is_static or shape.rank.get_length() == 0 for shape in shapes):
        return None
    if all(_is_of_8_bits(port) for port in operation.input_values()):
        return None
    left, right = (
        _turned(port) if attributes[flag] and len(shape) > 1 else port
        for port, shape, flag in zip(operation.input_values(), shapes, ("transpose_a", "transpose_b"), strict=True)
    )
    count = int(np.prod(operation.get_output_shape(0))) * list(left.get_shape())[-1]
    if count > MOST_PRODUCTS:
        return None
    if len(right.get_shape()) == 1:
        axis = -1
    elif len(left.get_shape()) == 1:
        left, axis = opset13.unsqueeze(left, _axis(-1)), -2
    else:
        left, right, axis = opset13.unsqueeze(left, _axis(-1)), opset13.unsqueeze(right, _axis(-3)), -2
    return _summed(opset13.multiply(left, right).output(0), axis)


def _turned(port: Any) -> Any:
    from openvino import opset13

    axes = np.arange(len(port.get_shape()))
    axes[-2:] = axes[-2:][::-1]
    return opset13.transpose(port, opset13.constant(axes)).output(0)


def _axis(axis: int) -> Any:
    from openvino import opset13

    return opset13.constant(np.array([axis], np.int64))


def _is_of_8_bits(port: Any) -> bool:
    """Whether integers were widened from 8 bits, with or without a zero point subtracted."""
    waiting, seen = [port], set()
    while waiting:
        each = waiting.pop()
        node = each.get_node()
        if each.get_element_type().get_type_name() in OF_8_BITS or node.get_name() in seen or _is_byte(node):
            continue
        seen.add(node.get_name())
        if node.get_type_name() not in HANDS_ON:
            return False
        waiting.extend(node.input_values()[: 2 if node.get_type_name() == "Subtract" else 1])
    return True


def _is_byte(node: Any) -> bool:
    if node.get_type_name() != "Constant":
        return False
    return bool(np.all(np.abs(node.data.astype(np.int64)) <= np.iinfo(np.uint8).max))


def _as_integer(flags: Any, like: Any) -> Any:
    from openvino import opset13

    return opset13.convert(flags, like.get_element_type().get_type_name())


KERNELS: Mapping[str, Callable[[Any], Any | None]] = {
    "Clamp": _clipped,
    "MatMul": _product,
    "Minimum": _limited,
    "Power": _power,
    "ReduceL1": _sum,
    "ReduceMax": _extreme("reduce_max"),
    "ReduceMin": _extreme("reduce_min"),
    "ReduceSum": _sum,
    "Relu": _rectified,
}
"""By operation the function that makes its replacement, or returns None if the operation stays unchanged."""
