"""Elementwise functions of one tensor."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value, computed
from edgekit_mil.support.integer_arithmetic import wrapped

MIL_NAMES = {
    "Acos": "acos",
    "Asin": "asin",
    "Atan": "atan",
    "Atanh": "atanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "Sin": "sin",
    "Sinh": "sinh",
    "Tan": "tan",
}


@lowering("Acos", "Asin", "Atan", "Cos", "Sin", "Tan", versions=[7, 22], elementwise=True)
@lowering("Atanh", "Cosh", "Sinh", versions=[9, 22], elementwise=True)
def trigonometric(ctx: Context, x: Value) -> Var:
    """The MIL operation of the same meaning."""
    result: Var = getattr(mb, MIL_NAMES[ctx.op_type])(x=x.var)
    return result


@lowering("Acosh", versions=[9, 22], elementwise=True)
def acosh(ctx: Context, x: Value) -> Var:
    """ln(x + sqrt(x + 1) sqrt(x - 1)); the product of roots does not overflow where x² would."""
    roots = mb.mul(x=mb.sqrt(x=mb.add(x=x.var, y=1.0)), y=mb.sqrt(x=mb.sub(x=x.var, y=1.0)))
    return mb.log(x=mb.add(x=x.var, y=roots), epsilon=0.0)


@lowering("Asinh", versions=[9, 22], elementwise=True)
def asinh(ctx: Context, x: Value) -> Var:
    """sign(x) (ln|x| + ln(1 + sqrt(1 + 1 / x²))), and atanh(x / sqrt(x² + 1)) near 0, where logarithms cancel.

    No x² overflows: in float16 it would from 256 on.
    """
    magnitude = mb.abs(x=x.var)
    small = mb.less(x=magnitude, y=0.5)
    root = mb.sqrt(x=mb.add(x=mb.square(x=mb.real_div(x=1.0, y=magnitude)), y=1.0))
    logarithm = mb.add(x=mb.log(x=magnitude, epsilon=0.0), y=mb.log(x=mb.add(x=root, y=1.0), epsilon=0.0))
    far = mb.mul(x=mb.sign(x=x.var), y=logarithm)
    within = mb.clip(x=x.var, alpha=-0.5, beta=0.5)
    near = mb.atanh(x=mb.real_div(x=within, y=mb.sqrt(x=mb.add(x=mb.square(x=within), y=1.0))))
    return mb.select(cond=small, a=near, b=far)


@lowering("Abs", versions=[6, 13], elementwise=True)
def absolute(ctx: Context, x: Value) -> Var:
    """|x|; the most negative 8- and 16-bit integers stay as they are."""
    return wrapped(mb.abs(x=x.var), x.dtype)


@lowering("Neg", versions=[6, 13], elementwise=True)
def negative(ctx: Context, x: Value) -> Var:
    """-x."""
    return wrapped(mb.mul(x=x.var, y=-1 if x.is_integer else -1.0), x.dtype)


@lowering("Sign", versions=[9, 13], elementwise=True)
def sign(ctx: Context, x: Value) -> Var:
    """-1, 0 or 1."""
    return mb.sign(x=x.var)


@lowering("Ceil", "Floor", versions=[6, 13], elementwise=True)
@lowering("Round", versions=[11, 22], elementwise=True)
def rounding(ctx: Context, x: Value) -> Var:
    """Rounds to whole numbers; Round rounds halves to the even neighbor."""
    result: Var = getattr(mb, ctx.op_type.lower())(x=x.var)
    return result


@lowering("Sqrt", "Exp", versions=[6, 13], elementwise=True)
@lowering("Erf", versions=[9, 13], elementwise=True)
@lowering("Tanh", "Sigmoid", versions=[6, 13], elementwise=True)
def function(ctx: Context, x: Value) -> Var:
    """The MIL operation of the same name."""
    result: Var = getattr(mb, ctx.op_type.lower())(x=x.var)
    return result


@lowering("Log", versions=[6, 13], elementwise=True)
def logarithm(ctx: Context, x: Value) -> Var:
    """ln(x), minus infinity at 0."""
    return mb.log(x=x.var, epsilon=0.0)


@lowering("Reciprocal", versions=[6, 13], elementwise=True)
def reciprocal(ctx: Context, x: Value) -> Var:
    """1 / x, infinity at 0."""
    return mb.real_div(x=1.0, y=x.var)


@lowering("IsNaN", versions=[9, 13, 20], elementwise=True)
def is_nan(ctx: Context, x: Value) -> Value:
    """Which elements are NaN: only a NaN differs from itself."""
    return computed(mb.not_equal(x=x.var, y=x.var), ir.DataType.BOOL)


@lowering("IsInf", versions=[10, 20], elementwise=True)
def is_inf(ctx: Context, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Which elements are infinite and have a sign that is asked for."""
    if detect_negative and detect_positive:
        found = mb.equal(x=mb.abs(x=x.var), y=np.float32(math.inf))
    elif detect_negative or detect_positive:
        found = mb.equal(x=x.var, y=np.float32(math.inf if detect_positive else -math.inf))
    else:
        found = mb.logical_and(x=mb.equal(x=x.var, y=0.0), y=mb.not_equal(x=x.var, y=0.0))
    return computed(found, ir.DataType.BOOL)
