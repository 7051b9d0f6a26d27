"""Conversions to boolean of floats, and of outputs other than an operation's first, as ONNX's Cast defines them.

For a ``Convert`` to boolean, the CPU plugin (OpenVINO 2026.4) reads the first output of the operation ahead, whichever
output the ``Convert`` reads: the first part of a ``Split``; behind others, such as ``TopK``, it does not load the
network. It converts NaN to false, which Cast converts to true.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of


def compare_with_zero(conversion: Any) -> bool:
    """Puts a comparison with zero in the place of a conversion to boolean.

    Args:
        conversion: A ``Convert``.

    Returns:
        Whether it was replaced; names stay.
    """
    from openvino import opset13

    value = conversion.input_value(0)
    source = value.get_element_type()
    if conversion.get_element_type().get_type_name() != "boolean" or source.get_type_name() == "boolean":
        return False
    if not (value.get_index() or source.is_real()):
        return False
    zero = opset13.constant(np.array(0, source.to_dtype()))
    put_in_place_of(conversion, opset13.not_equal(value, zero))
    return True
