"""Products of matrices."""

from __future__ import annotations

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Unsupported, Value


@lowering("MatMul", versions=[1, 9, 13])
def matmul(ctx: Context, a: Value, b: Value) -> Var:
    """numpy.matmul: vectors count as a row on the left and as a column on the right, and lose that dimension again."""
    x, y = a.var, b.var
    if a.rank == 1 and b.rank == 1:
        return mb.reduce_sum(x=mb.mul(x=x, y=y), axes=[0], keep_dims=False)
    if a.rank == 1:
        return mb.squeeze(x=mb.matmul(x=mb.expand_dims(x=x, axes=[0]), y=y), axes=[-2])
    if b.rank == 1:
        return mb.squeeze(x=mb.matmul(x=x, y=mb.expand_dims(x=y, axes=[1])), axes=[-1])
    return mb.matmul(x=x, y=y)


@lowering("Gemm", versions=[6, 7, 9, 11, 13])
def gemm(
    ctx: Context,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803 - ONNX's name
) -> Var:
    """``alpha * A' B' + beta * C`` of matrices A' [m, k], B' [k, n] and C that broadcasts to [m, n]."""
    if not a.is_float and not (alpha == beta == 1):
        raise Unsupported(f"factors {alpha:g} and {beta:g} on integers")
    bias = c if c is not None and beta == 1 and c.is_constant else None
    fits_linear = a.is_float and not transA and transB and alpha == 1 and b.is_constant and b.rank == 2
    if fits_linear and bias is not None and bias.shape == (b.shape[0],):
        return mb.linear(x=a.var, weight=b.var, bias=bias.operand)
    product = mb.matmul(x=a.var, y=b.var, transpose_x=bool(transA), transpose_y=bool(transB))
    if alpha != 1:
        product = mb.mul(x=product, y=alpha)
    if c is None or beta == 0:
        return product
    return mb.add(x=product, y=c.var if beta == 1 else mb.mul(x=c.var, y=beta))
