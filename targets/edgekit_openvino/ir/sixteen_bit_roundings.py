"""Roundings to 16 bits, which OpenVINO removes before it executes a network.

The plugins' low-precision transformations strip each ``FakeQuantize`` of 65536 levels (OpenVINO 2026.4), whatever
``LP_TRANSFORMS_MODE`` says, as if no number were beyond its limits. A quantizer leaves out the Relu ahead of a rounding
that begins at zero: negative numbers then pass. At such a rounding behind an input of the network the plugin fails ("FQ
stripping failed"). A rounding with one level more stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.networks import operations_of

STRIPPED = 65536
"""The number of levels of a rounding that OpenVINO removes."""


def keep_sixteen_bit_roundings(network: Any) -> list[str]:
    """Gives roundings to 16 bits a further level, which no number reaches, in place.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The roundings, by name.
    """
    roundings = [
        rounding
        for rounding in operations_of(network, "FakeQuantize")
        if rounding.get_attributes()["levels"] == STRIPPED
    ]
    return [rounding.get_friendly_name() for rounding in roundings if _kept(rounding)]


def _kept(rounding: Any) -> bool:
    """Replaces a rounding by one with one level more; returns False if its limits are computed at run time."""
    from openvino import opset13

    limits = [value.get_node() for value in rounding.input_values()[1:]]
    if any(each.get_type_name() != "Constant" for each in limits):
        return False
    least, greatest, lowest, highest = (np.asarray(each.get_data(), np.float64) for each in limits)
    dtype = limits[1].get_data().dtype
    wider = [end + (end - start) / (STRIPPED - 1) for start, end in ((least, greatest), (lowest, highest))]
    within = opset13.minimum(rounding.input_value(0), limits[1])
    kept = opset13.fake_quantize(
        within,
        limits[0],
        opset13.constant(wider[0].astype(dtype)),
        limits[2],
        opset13.constant(wider[1].astype(dtype)),
        STRIPPED + 1,
    )
    kept.set_friendly_name(rounding.get_friendly_name())
    kept.output(0).get_tensor().set_names(rounding.output(0).get_names())
    for reader in rounding.output(0).get_target_inputs():
        reader.replace_source_output(kept.output(0))
    return True
