"""Activation functions."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value

PRELU_RANK = 4
"""MIL's ``prelu`` takes a slope per channel only for tensors of this rank, images."""


@lowering("Relu", versions=[6, 13, 14], elementwise=True)
def relu(ctx: Context, x: Value) -> Var:
    """max(x, 0)."""
    if x.is_integer:
        return mb.maximum(x=x.var, y=0)
    return mb.relu(x=x.var)


@lowering("LeakyRelu", versions=[6, 16], elementwise=True)
def leaky_relu(ctx: Context, x: Value, *, alpha: float = 0.01) -> Var:
    """``x``, times alpha where it is negative."""
    return mb.leaky_relu(x=x.var, alpha=alpha)


@lowering("PRelu", versions=[7, 9, 16], elementwise=True)
def prelu(ctx: Context, x: Value, slope: Value) -> Var:
    """``x``, times the slope where it is negative; MIL has an operation for one slope per channel."""
    if x.is_float and slope.constant is not None and x.rank == PRELU_RANK:
        channels = x.shape[1]
        per_channel = (channels, 1, 1)
        if slope.shape == per_channel or slope.shape == (1, *per_channel):
            return mb.prelu(x=x.var, alpha=np.asarray(slope.constant, np.float32).reshape(-1))
    zero = 0.0 if x.is_float else 0
    return mb.select(cond=mb.less(x=x.var, y=zero), a=mb.mul(x=x.var, y=slope.var), b=x.var)


@lowering("ThresholdedRelu", versions=[10, 22], elementwise=True)
def thresholded_relu(ctx: Context, x: Value, *, alpha: float = 1.0) -> Var:
    """``x`` where it is greater than alpha, else 0."""
    return mb.select(cond=mb.greater(x=x.var, y=np.float32(alpha)), a=x.var, b=np.float32(0))


@lowering("Elu", versions=[6, 22], elementwise=True)
def elu(ctx: Context, x: Value, *, alpha: float = 1.0) -> Var:
    """``x``, or ``alpha (exp(x) - 1)`` where it is negative."""
    return mb.elu(x=x.var, alpha=alpha)


@lowering("Selu", versions=[6, 22], elementwise=True)
def selu(
    ctx: Context, x: Value, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Var:
    """Gamma times the exponential linear unit."""
    return mb.mul(x=mb.elu(x=x.var, alpha=alpha), y=np.float32(gamma))


@lowering("Celu", versions=[12, 28], elementwise=True)
def celu(ctx: Context, x: Value, *, alpha: float = 1.0) -> Var:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    if alpha < 0:
        raised = mb.sub(x=mb.exp(x=mb.real_div(x=x.var, y=np.float32(alpha))), y=1.0)
        return mb.add(x=mb.relu(x=x.var), y=mb.minimum(x=mb.mul(x=raised, y=np.float32(alpha)), y=0.0))
    scaled = mb.elu(x=mb.real_div(x=x.var, y=np.float32(alpha)), alpha=1.0)
    return mb.mul(x=scaled, y=np.float32(alpha))


@lowering("Gelu", versions=[20], elementwise=True)
def gelu(ctx: Context, x: Value, *, approximate: str = "none") -> Var:
    """X times the normal distribution function, exact or by tanh."""
    return mb.gelu(x=x.var, mode="TANH_APPROXIMATION" if approximate == "tanh" else "EXACT")


@lowering("HardSigmoid", versions=[6, 22], elementwise=True)
def hard_sigmoid(ctx: Context, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Var:
    """max(0, min(1, alpha x + beta))."""
    return mb.sigmoid_hard(x=x.var, alpha=alpha, beta=beta)


@lowering("HardSwish", versions=[14, 22], elementwise=True)
def hard_swish(ctx: Context, x: Value) -> Var:
    """X max(0, min(1, x / 6 + 1 / 2))."""
    return mb.mul(x=x.var, y=mb.sigmoid_hard(x=x.var, alpha=1 / 6, beta=0.5))


@lowering("Swish", versions=[24], elementwise=True)
def swish(ctx: Context, x: Value, *, alpha: float = 1.0) -> Var:
    """X sigmoid(alpha x)."""
    if alpha == 1.0:
        return mb.silu(x=x.var)
    return mb.mul(x=x.var, y=mb.sigmoid(x=mb.mul(x=x.var, y=np.float32(alpha))))


@lowering("Mish", versions=[18, 22], elementwise=True)
def mish(ctx: Context, x: Value) -> Var:
    """X tanh(ln(1 + exp(x)))."""
    return mb.mul(x=x.var, y=mb.tanh(x=mb.softplus(x=x.var)))


@lowering("Softplus", versions=[1, 22], elementwise=True)
def softplus(ctx: Context, x: Value) -> Var:
    """ln(1 + exp(x))."""
    return mb.softplus(x=x.var)


@lowering("Softsign", versions=[1, 22], elementwise=True)
def softsign(ctx: Context, x: Value) -> Var:
    """X / (1 + |x|)."""
    return mb.softsign(x=x.var)


@lowering("Shrink", versions=[9], elementwise=True)
def shrink(ctx: Context, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Var:
    """``x + bias`` where x is less than -lambd, ``x - bias`` where it is greater than lambd, else 0."""
    number = x.var if x.is_float else mb.cast(x=x.var, dtype="fp32")
    is_high = mb.greater(x=number, y=np.float32(lambd))
    high = mb.select(cond=is_high, a=mb.sub(x=number, y=np.float32(bias)), b=np.float32(0))
    is_low = mb.less(x=number, y=np.float32(-lambd))
    result = mb.select(cond=is_low, a=mb.add(x=number, y=np.float32(bias)), b=high)
    return result if x.is_float else mb.cast(x=result, dtype="int32")
