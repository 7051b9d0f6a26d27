"""Roundings of vectors that are scaled first, each element by its own factor, as smoothing does ahead of a product.

OpenVINO's hardware-independent passes put the factors into the limits of the ``FakeQuantize`` behind them. If a tensor
of two dimensions comes from a Concat of reductions (a pooling by mean and maximum), the CPU plugin's low-precision
transformations compute such a rounding wrong (OpenVINO 2026.4): a network of 33 dB had 4 dB. If the factors stay a
``Multiply``, it is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.networks import operations_of

SAME_LIMIT = 1e-5
"""As a share of the range: scaled limits that differ by at most this much are equal but for float32's rounding."""


def scale_ahead_of_roundings(network: Any) -> list[str]:
    """Takes factors out of the limits of roundings of two dimensions, in place.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The roundings, by name.
    """
    roundings = operations_of(network, "FakeQuantize")
    return [rounding.get_friendly_name() for rounding in roundings if _scaled_ahead(rounding)]


def _scaled_ahead(rounding: Any) -> bool:
    """Replaces a rounding by a product and a rounding with single limits; returns False if it is of another kind."""
    from openvino import opset13

    rank = rounding.input_value(0).get_partial_shape().rank
    limits = [value.get_node() for value in rounding.input_values()[1:]]
    if rank.is_dynamic or rank.get_length() != 2 or any(each.get_type_name() != "Constant" for each in limits):
        return False
    least, greatest, lowest, highest = (np.asarray(each.get_data(), np.float64) for each in limits)
    if max(least.size, greatest.size) == 1 or max(lowest.size, highest.size) > 1:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = (highest - lowest).reshape(()) / (greatest - least)
        scaled = least * factors, greatest * factors
    width = float(np.abs(highest - lowest).reshape(()))
    if not all(np.ptp(each) <= SAME_LIMIT * width for each in scaled):  # also where one of them is not finite
        return False
    product = opset13.multiply(rounding.input_value(0), opset13.constant(factors.astype(np.float32)))
    single = [opset13.constant(np.float32(each.mean())) for each in scaled]
    levels = rounding.get_attributes()["levels"]
    rounded = opset13.fake_quantize(product, *single, *limits[2:], levels)
    rounded.set_friendly_name(rounding.get_friendly_name())
    rounded.output(0).get_tensor().set_names(rounding.output(0).get_names())
    for reader in rounding.output(0).get_target_inputs():
        reader.replace_source_output(rounded.output(0))
    return True
