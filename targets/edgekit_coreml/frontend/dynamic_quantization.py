"""Quantization by the range that a tensor turns out to have."""

from __future__ import annotations

import numpy as np

from edgekit_coreml.frontend.exactness import EXACT
from edgekit_coreml.frontend.mil import Var, mb

STEPS = 255


def dynamically_quantized(x: Var) -> tuple[Var, Var, Var]:
    """Unsigned 8-bit levels of x in int32, the scale and the zero point, scalars in float32 and int32.

    The range is that of x and zero, as in ONNX's DynamicQuantizeLinear. Of zeros alone the scale is 1, as in ONNX
    Runtime: the specification divides by zero there.
    """
    axes = list(range(x.rank))
    low = mb.minimum(x=mb.reduce_min(x=x, axes=axes, keep_dims=False), y=0.0) if axes else mb.minimum(x=x, y=0.0)
    high = mb.maximum(x=mb.reduce_max(x=x, axes=axes, keep_dims=False), y=0.0) if axes else mb.maximum(x=x, y=0.0)
    spread = mb.real_div(x=mb.sub(x=high, y=low), y=float(STEPS), name=EXACT)
    scale = mb.select(cond=mb.equal(x=spread, y=0.0), a=np.float32(1), b=spread, name=EXACT)
    zero = _level(mb.real_div(x=mb.sub(x=0.0, y=low), y=scale, name=EXACT), None)
    return _level(mb.real_div(x=x, y=scale, name=EXACT), zero), scale, zero


def dynamically_rounded(x: Var) -> Var:
    """What 8-bit levels of the range of x make of it, in floats again."""
    levels, scale, zero = dynamically_quantized(x)
    return mb.mul(x=mb.cast(x=mb.sub(x=levels, y=zero), dtype="fp32"), y=scale, name=EXACT)


def _level(steps: Var, zero: Var | None) -> Var:
    """Steps rounded, moved by the zero point, and held within the levels."""
    rounded = mb.cast(x=mb.clip(x=mb.round(x=steps, name=EXACT), alpha=-512.0, beta=512.0), dtype="int32")
    moved = rounded if zero is None else mb.add(x=rounded, y=zero)
    return mb.minimum(x=mb.maximum(x=moved, y=0), y=STEPS)
