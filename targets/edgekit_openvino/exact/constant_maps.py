"""Constant factors of each place of a picture ahead of a convolution.

OpenVINO's optimizations (2026.4) move a constant factor from the input of a convolution into its weights. They do so,
too, with a map of factors, one for each place, whose size happens to be that of the kernel: each window of a padded
convolution is then multiplied by the whole map. Such maps come from average pooling that counts the places of each
window. A barrier keeps the map where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edgekit_openvino.exact.barriers import barrier

CONVOLUTIONS = frozenset({"Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData"})
PRODUCTS = frozenset({"Multiply", "Divide"})
LEADING_AXES = 2
"""The axes ahead of the places: samples and channels."""


def keep_maps(convolution: Any, constants: Collection[str]) -> None:
    """Puts a barrier between a convolution and the product with a map of constant factors that it reads, in place.

    Args:
        convolution: A convolution of any kind.
        constants: The names of the operations that depend on constants alone.
    """
    value = convolution.input_value(0)
    product = value.get_node()
    if product.get_type_name() not in PRODUCTS:
        return
    factors = [factor for factor in product.input_values() if factor.get_node().get_name() in constants]
    rank = value.get_partial_shape().rank
    if len(factors) != 1 or rank.is_dynamic:
        return
    shape = factors[0].get_partial_shape()
    places = list(shape)[LEADING_AXES - rank.get_length() :] if shape.rank.is_static else []
    if shape.rank.is_dynamic or any(size.is_dynamic or size.get_length() != 1 for size in places):
        convolution.input(0).replace_source_output(barrier(value).output(0))
