"""Conversion between element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mlruntime.precision import HELD_TYPES, hold
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("cast", raw=True)
def cast(call: Call, x: Array, dtype: str) -> Array:
    """Convert elements to the declared output type, which is also what ``dtype`` names.

    Floats are truncated to integers and saturate, NaN becomes 0, as with ARM's conversion instructions. Integers wrap
    around. As a bool, every value except zero is True.
    """
    target = call.output.dtype
    held = HELD_TYPES[target]
    if x.dtype.kind == "f" and held.kind in "iu":
        return float_to_integer(x, held)
    if held.kind == "b":
        return np.not_equal(x, 0)
    return hold(x, target, rounds=call.rounds_to_half)


def float_to_integer(x: Array, target: np.dtype[Any]) -> Array:
    """Truncate toward zero; values out of range become the nearest integer in range, NaN becomes 0."""
    limits = np.iinfo(target)
    # A float cannot hold the upper limit of int32 or int64 exactly: values that reach a limit are replaced separately.
    whole = np.trunc(x)
    too_high = whole >= float(limits.max)
    too_low = whole <= float(limits.min)
    inside = np.where(too_high | too_low | np.isnan(whole), 0, whole).astype(target)
    return np.where(too_high, target.type(limits.max), np.where(too_low, target.type(limits.min), inside))
