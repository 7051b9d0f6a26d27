"""Elementwise operations of two operands, with NumPy's broadcasting."""

from __future__ import annotations

import numpy as np

from edgekit_coreml.runtime.program import Array
from edgekit_coreml.runtime.registry import Call, kernel


@kernel("add")
def add(call: Call, x: Array, y: Array) -> Array:
    """``x + y``."""
    return np.add(x, y)
