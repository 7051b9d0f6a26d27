"""Products of integers whose weights are a batch of matrices with a scale for each column, as in a mixture of experts.

OpenVINO's CPU plugin (2026.4) reads beyond the scales: the results are arbitrary. With one scale for all columns they
are right, and so are products of floats with the same weights, which stay stored in 8 bits. A choice between the
rounding of the activation and the product leaves OpenVINO the product of floats; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.barriers import barrier
from edgekit_openvino.exact.quantized.scaled_rows import scaled_axes

COLUMNS = -1


def multiply_in_floats(product: Any, constants: Collection[str]) -> None:
    """Puts a choice ahead of the activation that a product of such weights reads, in place.

    Args:
        product: A MatMul in a quantized network.
        constants: The names of the operations that depend on constants alone.
    """
    weights = product.input_value(1)
    if weights.get_node().get_name() not in constants or product.input_value(0).get_node().get_name() in constants:
        return
    matrices = int(np.prod(list(weights.get_shape())[:-2]))
    if matrices > 1 and COLUMNS in scaled_axes(weights, swapped=product.get_attributes()["transpose_b"]):
        product.input(0).replace_source_output(barrier(product.input_value(0)).output(0))
