"""Products of matrices, and determinants of small ones."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value, computed
from edgekit_mil.support.high_ranks import of_shape, product_merged


@lowering("MatMul", versions=[1, 9, 13])
def matmul(ctx: Context, a: Value, b: Value) -> Var | Value:
    """As numpy.matmul: a vector is a row on the left and a column on the right; the result lacks its dimension."""
    if max(a.rank, b.rank) > HIGHEST_RANK:
        left, right, shape = product_merged(a, b)
        return of_shape(computed(mb.matmul(x=left.var, y=right.var), a.dtype), shape, a, b)
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


def product_along(x: Var, matrix: np.ndarray, axis: int) -> Var:
    """``matrix`` [out, in] times x along an axis of size ``in``, which becomes ``out``."""
    axis %= x.rank
    transposed = np.ascontiguousarray(matrix.T)
    if x.rank == 1:
        return mb.squeeze(x=mb.matmul(x=mb.expand_dims(x=x, axes=[0]), y=transposed), axes=[0])
    if axis == x.rank - 1:
        return mb.matmul(x=x, y=transposed)
    if axis == x.rank - 2:
        return mb.matmul(x=matrix, y=x)
    order = list(range(x.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return mb.transpose(x=mb.matmul(x=mb.transpose(x=x, perm=order), y=transposed), perm=order)


LARGEST_DETERMINANT = 4
"""Largest number of rows: Laplace's expansion has n! terms."""


@lowering("Det", versions=[11, 22], note=f"matrices of up to {LARGEST_DETERMINANT} rows")
def determinant(ctx: Context, x: Value) -> Var:
    """The determinant of every matrix in the last two dimensions, by Laplace's expansion."""
    size = x.static_shape[-1]
    if size > LARGEST_DETERMINANT:
        raise Unsupported(f"a matrix of {size} rows, more than {LARGEST_DETERMINANT}")
    rows = [mb.squeeze(x=row, axes=[-2]) for row in taken_apart(x.var, size, -2)]
    elements = [[mb.squeeze(x=element, axes=[-1]) for element in taken_apart(row, size, -1)] for row in rows]
    return expansion(elements, list(range(size)))


def taken_apart(x: Var, count: int, axis: int) -> list[Var]:
    """The slices of an axis."""
    return [x] if count == 1 else list(mb.split(x=x, num_splits=count, axis=axis))


def expansion(rows: list[list[Var]], columns: list[int]) -> Var:
    """The determinant of rows restricted to some columns, expanded along the first row."""
    if len(rows) == 1:
        return mb.identity(x=rows[0][columns[0]])
    others = ([other for other in columns if other != column] for column in columns)
    first, *terms = [
        mb.mul(x=rows[0][column], y=expansion(rows[1:], rest)) for column, rest in zip(columns, others, strict=True)
    ]
    total = first
    for place, term in enumerate(terms):
        total = mb.add(x=total, y=term) if place % 2 else mb.sub(x=total, y=term)
    return total
