"""Weights of 4 bits that OpenVINO's CPU plugin multiplies wrong.

Its kernel of a matrix product reads such weights wrong if each sum has an odd number of products, 9 or more with AVX2
and 17 or more with AVX-512, and the other operand has more than four rows (OpenVINO 2026.4.1): results have 5 to 30 dB,
and no error is reported. The same integers in 8 bits are read right.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import put_in_place_of

PRODUCT = "MatMul"
ON_THE_WAY = frozenset({"Convert", "Multiply", "Reshape", "Subtract", "Transpose"})
"""Operations between the stored integers and the float weights that they represent."""
SIGNED, UNSIGNED = "i4", "u4"
SIGN = 8
"""The sign bit of a 4-bit integer."""


def store_in_8_bits_where_misread(network: Any) -> list[str]:
    """Stores 4-bit weights that the plugin would read wrong in 8 bits, in place.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The names of the products.
    """
    changed = []
    for operation in network.get_ordered_ops():
        if operation.get_type_name() != PRODUCT or not _sums_an_odd_number(operation):
            continue
        constants = {constant.get_name(): constant for constant in _constants_of_4_bits(operation.input_value(1))}
        for constant in constants.values():
            _store_in_8_bits(constant)
        if constants:
            changed.append(operation.get_friendly_name())
    network.validate_nodes_and_infer_types()
    return changed


def _sums_an_odd_number(product: Any) -> bool:
    shape = product.input_value(1).get_partial_shape()
    if shape.rank.is_dynamic or shape.rank.get_length() < 2:
        return False
    summed = shape[shape.rank.get_length() - (1 if product.get_attributes()["transpose_b"] else 2)]
    return bool(summed.is_static and summed.get_length() % 2 == 1)


def _constants_of_4_bits(value: Any) -> Iterator[Any]:
    """Yields the 4-bit constants that a product's weights are made of: integers and zero points."""
    node = value.get_node()
    if node.get_type_name() == "Constant" and node.get_element_type().get_type_name() in (SIGNED, UNSIGNED):
        yield node
    if node.get_type_name() in ON_THE_WAY:
        for port in node.input_values():
            yield from _constants_of_4_bits(port)


def _store_in_8_bits(constant: Any) -> None:
    from openvino import opset13

    packed = np.array(constant.get_data()).view(np.uint8).reshape(-1, 1)  # two a byte, the lower bits first
    shape = tuple(constant.get_output_shape(0))
    integers = np.concatenate([packed % 16, packed // 16], axis=1).ravel()[: prod(shape)].reshape(shape)
    if constant.get_element_type().get_type_name() == SIGNED:
        integers = (integers ^ SIGN).astype(np.int8) - np.int8(SIGN)
    put_in_place_of(constant, opset13.constant(integers))
