"""Values kept between two numbers."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import INT32_RANGE, Value, constant, is_beyond_int32


def bounded(x: Var, low: float, high: float) -> Var:
    """Floats clipped to at least ``low`` and at most ``high``; if ``low`` is greater, the result is ``high``.

    Core ML's ``clip`` requires that the limits differ, also in half precision.
    """
    with np.errstate(over="ignore"):
        apart = np.float16(low) < np.float16(high)
    if apart:
        return mb.clip(x=x, alpha=np.float32(low), beta=np.float32(high))
    return mb.minimum(x=mb.maximum(x=x, y=np.float32(low)), y=np.float32(high))


def reachable(limit: Value, *, upper: bool) -> Value:
    """A limit for integers; constants above int32 (``upper``) or below it become the nearest int32 number.

    Exporters write the ends of int64 if there is no limit.
    """
    if limit.constant is None or not is_beyond_int32(limit.constant):
        return limit
    low, high = INT32_RANGE
    low = max(low, int(np.iinfo(limit.constant.dtype).min))
    nearest = np.minimum(limit.constant, high) if upper else np.maximum(limit.constant, low)
    return constant(nearest, limit.dtype)
