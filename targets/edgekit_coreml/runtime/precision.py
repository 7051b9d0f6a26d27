"""How values are held while a program runs.

float16 values are held as float32 arrays whose values a float16 can represent: kernels compute in float32 without
converting back and forth, and a result is rounded once, where an fp16 program would round it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_coreml.runtime.program import Array, DataType

HELD_TYPES: dict[DataType, np.dtype[Any]] = {
    dtype: np.dtype(np.float32) if dtype is DataType.FLOAT16 else dtype.numpy
    for dtype in DataType
    if dtype not in (DataType.BFLOAT16, DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2)
}
"""The NumPy type that values of each element type are held in; types that cannot be held are missing."""


def round_to_half(values: Array) -> Array:
    """Round to the nearest float16 (ties to even, overflow to infinity), held as float32."""
    return values.astype(np.float16).astype(np.float32)


def hold(value: Any, dtype: DataType, *, rounds: bool) -> Array:
    """Bring a kernel's result, a constant or a feed into the form in which values of ``dtype`` are held.

    Args:
        value: Array or scalar of any numeric type.
        dtype: The declared element type.
        rounds: Whether float16 values are to be rounded; without it they are taken as they are.
    """
    array = np.asarray(value)
    held = HELD_TYPES[dtype]
    if dtype is DataType.FLOAT16 and rounds and array.dtype != np.float16:
        return round_to_half(array)
    return array if array.dtype == held else array.astype(held)
