"""Operators of ``com.microsoft`` into which ONNX Runtime's optimizer fuses several standard ones."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.ops.standard.convolution import conv
from edgekit_mil.ops.standard.matrices import gemm

DOMAIN = "com.microsoft"


@lowering("FusedConv", versions=[1], domain=DOMAIN, note="1 to 3 spatial dimensions")
def fused_conv(
    ctx: Context,
    x: Value,
    w: Value,
    b: Value | None = None,
    z: Value | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """A convolution, plus z, followed by an activation."""
    result = conv(
        ctx,
        x,
        w,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    if z is not None:
        result = mb.add(x=result, y=z.var)
    return activated(result, activation, activation_params)


@lowering("FusedGemm", versions=[1], domain=DOMAIN)
def fused_gemm(
    ctx: Context,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX Runtime's name
    transB: int = 0,  # noqa: N803 - ONNX Runtime's name
) -> Var:
    """Gemm, followed by an activation."""
    parameters = [number for number in (activation_alpha, activation_beta) if number is not None]
    return activated(gemm(ctx, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB), activation, parameters)


@lowering("FusedMatMul", "TransposeMatMul", versions=[1], domain=DOMAIN)
def fused_matmul(
    ctx: Context,
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX Runtime's name
    transB: int = 0,  # noqa: N803 - ONNX Runtime's name
    transBatchA: int = 0,  # noqa: N803 - ONNX Runtime's name
    transBatchB: int = 0,  # noqa: N803 - ONNX Runtime's name
) -> Var:
    """``alpha * A' B'``; before the product, transBatch moves the first axis behind the other batch axes."""
    if a.rank < 2 or b.rank < 2:
        raise Unsupported(f"needs matrices, found ranks {a.rank} and {b.rank}")
    left, right = (
        _batch_last(value.var) if batch else value.var for value, batch in ((a, transBatchA), (b, transBatchB))
    )
    product = mb.matmul(x=left, y=right, transpose_x=bool(transA), transpose_y=bool(transB))
    return product if alpha == 1 else mb.mul(x=product, y=alpha)


@lowering("Gelu", versions=[1], domain=DOMAIN)
def gelu(ctx: Context, x: Value) -> Var:
    """``x * Phi(x)`` with the normal distribution's Phi."""
    return mb.gelu(x=x.var, mode="EXACT")


@lowering("BiasGelu", versions=[1], domain=DOMAIN)
def bias_gelu(ctx: Context, x: Value, b: Value) -> Var:
    """Gelu of ``x + b``."""
    return mb.gelu(x=mb.add(x=x.var, y=b.var), mode="EXACT")


@lowering("FastGelu", versions=[1], domain=DOMAIN)
def fast_gelu(ctx: Context, x: Value, bias: Value | None = None) -> Var:
    """Gelu of ``x + bias``, approximated with tanh."""
    data = x.var if bias is None else mb.add(x=x.var, y=bias.var)
    return mb.gelu(x=data, mode="TANH_APPROXIMATION")


@lowering("QuickGelu", versions=[1], domain=DOMAIN)
def quick_gelu(ctx: Context, x: Value, *, alpha: float = 1.702) -> Var:
    """``x * sigmoid(alpha * x)``."""
    return mb.mul(x=x.var, y=mb.sigmoid(x=mb.mul(x=x.var, y=alpha)))


def activated(x: Var, name: str, parameters: Sequence[float]) -> Var:
    """Applies an activation that ONNX Runtime fuses into the node before it.

    Raises:
        Unsupported: There is no activation of this name.
    """
    defaults: dict[str, tuple[float, ...]] = {"LeakyRelu": (0.01,), "HardSigmoid": (0.2, 0.5)}
    values = [*parameters, *defaults.get(name, ())[len(parameters) :]]
    if name == "":
        return x
    if name == "Relu":
        return mb.relu(x=x)
    if name == "Tanh":
        return mb.tanh(x=x)
    if name == "Sigmoid":
        return mb.sigmoid(x=x)
    if name == "LeakyRelu":
        return mb.leaky_relu(x=x, alpha=values[0])
    if name == "HardSigmoid":
        return mb.sigmoid_hard(x=x, alpha=values[0], beta=values[1])
    if name == "Clip" and len(values) == 2:
        return mb.minimum(x=mb.maximum(x=x, y=values[0]), y=values[1])
    raise Unsupported(f"unknown activation {name!r} with parameters {list(parameters)}")


def _batch_last(x: Var) -> Var:
    return mb.transpose(x=x, perm=[*range(1, x.rank - 1), 0, x.rank - 1])
