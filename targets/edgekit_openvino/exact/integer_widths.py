"""Integers cut to 16 bits, and unsigned ones of 32 bits that become floats, as ONNX's Cast defines them.

OpenVINO's CPU plugin keeps all of them in 32 bits with a sign (seen in OpenVINO 2026.4): 70000 stays 70000 in 16 bits,
and the greatest unsigned integer is -1 as a float. Cast drops the higher bits, and takes what is left in two's
complement.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.integer_quotients import may_be_large
from edgekit_openvino.exact.replacing import put_in_place_of

LOW_BITS = np.array(0xFFFF, np.int32)
SIGN = np.array(0x8000, np.int32)
ALL_UNSIGNED = np.array(2.0**32, np.float32)
FITTING = {"i16": ("boolean", "i8", "u8", "i16"), "u16": ("boolean", "u8", "u16")}
"""Types all of whose integers a type of 16 bits holds."""


def keep_width(conversion: Any) -> bool:
    """Makes a conversion drop the higher bits, or keep the value of unsigned integers as floats; names stay.

    Args:
        conversion: A ``Convert`` of an ``openvino.Model``.

    Returns:
        Whether it was changed.
    """
    from openvino import opset13

    source, result = conversion.get_input_element_type(0), conversion.get_element_type()
    kind = result.get_type_name()
    is_unsigned = source.get_type_name() == "u32" and result.is_real()
    is_cut = kind in FITTING and source.get_type_name() not in FITTING[kind]
    if source.is_real() or not (is_unsigned or is_cut) or not may_be_large(conversion):
        return False
    whole = opset13.convert(conversion.input_value(0), "i32")
    low = opset13.bitwise_and(whole, LOW_BITS)
    if is_unsigned:
        high = opset13.convert(opset13.subtract(whole, low), "f32")  # of 16 bits, which float32 holds
        lost = opset13.multiply(opset13.convert(opset13.less(high, np.float32(0)), "f32"), ALL_UNSIGNED)
        total = opset13.add(opset13.add(high, lost), opset13.convert(low, "f32"))
        put_in_place_of(conversion, opset13.convert(total, kind))
        return True
    if kind == "i16":
        low = opset13.subtract(opset13.bitwise_xor(low, SIGN), SIGN)
    put_in_place_of(conversion, opset13.convert(low, kind))
    return True
