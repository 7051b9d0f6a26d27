"""Matrix products that sum nothing, since the inner size is 0: ONNX gives zeros, OpenVINO's CPU plugin any numbers.

The plugin (OpenVINO 2026.4.1) returns memory that nothing wrote. Such products are the unused parameters of adapters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

_MATRIX = 2


def make_empty_products_zero(product: Any) -> bool:
    """Replaces a product whose inner size is 0 by zeros; returns whether it is one whose shape is known.

    Open sizes may only be those of the first factor ahead of its last axis, where the second factor is a matrix.
    """
    from openvino import opset13

    first, second = product.input_value(0), product.input_value(1)
    sizes, others = (value.get_partial_shape() for value in (first, second))
    attributes = product.get_attributes()
    if sizes.rank.is_dynamic or not len(sizes):
        return False
    inner = sizes[-2 if attributes["transpose_a"] and len(sizes) > 1 else -1]
    if inner.is_dynamic or inner.get_length():
        return False
    zero = np.zeros((), product.get_element_type().to_dtype())
    shape = product.get_output_partial_shape(0)
    if shape.is_static:
        put_in_place_of(product, opset13.constant(np.broadcast_to(zero, shape.to_shape()).copy()))
        return True
    if attributes["transpose_a"] or others.rank.is_dynamic or len(others) != _MATRIX:
        return False
    columns = others[0 if attributes["transpose_b"] else 1]
    if columns.is_dynamic:
        return False
    rows = opset13.gather(
        opset13.shape_of(first), opset13.constant(np.arange(len(sizes) - 1)), opset13.constant(np.array(0))
    )
    target = opset13.concat([rows, opset13.constant(np.array([columns.get_length()]))], 0)
    put_in_place_of(product, opset13.broadcast(opset13.constant(zero), target))
    return True
