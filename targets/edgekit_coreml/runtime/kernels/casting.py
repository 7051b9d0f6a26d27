"""Conversion between element types."""

from __future__ import annotations

import numpy as np

from edgekit_coreml.runtime.precision import HELD_TYPES, hold
from edgekit_coreml.runtime.program import Array
from edgekit_coreml.runtime.registry import Call, kernel


@kernel("cast", raw=True)
def cast(call: Call, x: Array, dtype: str) -> Array:
    """Convert elements to the declared output type, which ``dtype`` names as well.

    Floats lose their fraction on the way to integers, and saturate, NaN becoming 0, as ARM's conversion instructions
    do; integers wrap around; everything but zero is True.
    """
    target = call.output.dtype
    held = HELD_TYPES[target]
    if x.dtype.kind == "f" and held.kind in "iu":
        return float_to_integer(x, held)
    if held.kind == "b":
        return x != 0
    return hold(x, target, rounds=call.rounds_to_half)


def float_to_integer(x: Array, target: np.dtype[np.generic]) -> Array:
    """Truncate towards zero; values out of range become the nearest one in range, NaN becomes 0."""
    limits = np.iinfo(target)
    # float64 holds every limit of up to 32 bits; the upper one of int64 is out of its reach and left to `where`.
    whole = np.trunc(x.astype(np.float64))
    converted = np.clip(whole, limits.min, limits.max).astype(target)
    converted = np.where(whole >= float(limits.max), limits.max, converted).astype(target)
    return np.where(np.isnan(whole), 0, converted).astype(target)
