"""Choosing between values, and limiting them."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value
from edgekit_mil.support.bounds import bounded, reachable
from edgekit_mil.support.movement import choose

LARGEST = float(np.finfo(np.float32).max)


@lowering("Where", versions=[9, 16], elementwise=True)
def where(ctx: Context, condition: Value, a: Value, b: Value) -> Var:
    """``a`` where the condition holds, else ``b``."""
    return choose(condition.var, a, b)


@lowering("Clip", versions=[6], elementwise=True)
def clip_by_attributes(ctx: Context, x: Value, *, min: float = -LARGEST, max: float = LARGEST) -> Var:  # noqa: A002 - ONNX's names
    """Clips to limits from attributes; limits at the ends of float32 do nothing."""
    return limited(x, None if min <= -LARGEST else min, None if max >= LARGEST else max)


@lowering("Clip", versions=[11, 12, 13], elementwise=True)
def clip(ctx: Context, x: Value, low: Value | None = None, high: Value | None = None) -> Var:
    """Clips to limits from inputs; if the lower one is greater, the result is the upper one."""
    limits = [
        float(limit.constant.reshape(-1)[0]) if limit is not None and limit.constant is not None else None
        for limit in (low, high)
    ]
    if x.is_float and all(limit is None or limit.is_constant for limit in (low, high)):
        return limited(x, *limits)
    result = x.var
    if low is not None:
        result = mb.maximum(x=result, y=reachable(low, upper=False).var)
    if high is not None:
        result = mb.minimum(x=result, y=reachable(high, upper=True).var)
    return mb.identity(x=result) if result is x.var else result


def limited(x: Value, low: float | None, high: float | None) -> Var:
    """Clips floats to constant limits."""
    if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        return bounded(x.var, low, high)
    result = x.var
    if low is not None:
        result = mb.maximum(x=result, y=np.float32(low))
    if high is not None:
        result = mb.minimum(x=result, y=np.float32(high))
    return mb.identity(x=x.var) if low is None and high is None else result
