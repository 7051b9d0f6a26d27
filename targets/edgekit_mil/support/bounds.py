"""Values kept between two numbers."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import INT32_RANGE, Value, constant, is_beyond_int32


def bounded(x: Var, low: float, high: float) -> Var:
    """Floats no less than ``low`` and no more than ``high``; the upper one wins where they cross.

    Core ML's ``clip`` takes limits only where they stay apart, also in half precision.
    """
    with np.errstate(over="ignore"):
        apart = np.float16(low) < np.float16(high)
    if apart:
        return mb.clip(x=x, alpha=np.float32(low), beta=np.float32(high))
    return mb.minimum(x=mb.maximum(x=x, y=np.float32(low)), y=np.float32(high))


def reachable(limit: Value, *, upper: bool) -> Value:
    """A limit of integers; a constant that they cannot reach from below (``upper``) or above is int32's own end.

    Exporters write the ends of int64 for no limit.
    """
    if limit.constant is None or not is_beyond_int32(limit.constant):
        return limit
    low, high = INT32_RANGE
    nearest = np.minimum(limit.constant, high) if upper else np.maximum(limit.constant, low)
    return constant(nearest, limit.dtype)
