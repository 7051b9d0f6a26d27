"""Values kept between two numbers."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.mil import Var, mb


def bounded(x: Var, low: float, high: float) -> Var:
    """Floats no less than ``low`` and no more than ``high``; the upper one wins where they cross.

    Core ML's ``clip`` takes limits only where they stay apart, also in half precision.
    """
    with np.errstate(over="ignore"):
        apart = np.float16(low) < np.float16(high)
    if apart:
        return mb.clip(x=x, alpha=np.float32(low), beta=np.float32(high))
    return mb.minimum(x=mb.maximum(x=x, y=np.float32(low)), y=np.float32(high))
