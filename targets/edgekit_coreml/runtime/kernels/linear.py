"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from edgekit_coreml.runtime.precision import HELD_TYPES
from edgekit_coreml.runtime.program import Array
from edgekit_coreml.runtime.registry import Call, kernel


@kernel("linear")
def linear(call: Call, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias`` of ``x`` [*D, D_in], ``weight`` [D_out, D_in] and ``bias`` [D_out]."""
    product = _product(call, x, weight.T)
    return product if bias is None else np.add(product, bias, out=product, casting="same_kind")


@kernel("matmul")
def matmul(call: Call, x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Matrix product with NumPy's broadcasting; the transpositions swap the last two axes and leave vectors alone."""
    if transpose_x and x.ndim > 1:
        x = x.swapaxes(-1, -2)
    if transpose_y and y.ndim > 1:
        y = y.swapaxes(-1, -2)
    return _product(call, x, y)


def _product(call: Call, x: Array, y: Array) -> Array:
    """``x @ y`` in the type of the output: from iOS 17 on, a constant may have another type than the other operand."""
    dtype = HELD_TYPES[call.output.dtype]
    x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
    if y.ndim == 2 and x.ndim > 2:
        # One product instead of one for each batch.
        return (x.reshape(-1, x.shape[-1]) @ y).reshape(*x.shape[:-1], y.shape[-1])
    return np.asarray(x @ y)


@kernel("einsum")
def einsum(call: Call, values: list[Array], equation: str) -> Array:
    """Sum of products in Einstein's notation; dimensions of size 1 are broadcast."""
    operands, _, output = equation.replace(" ", "").partition("->")
    labels = operands.split(",")
    if _is_matrix_product(labels, output, values):
        return _matrix_product(labels, output, values)
    result: Array = np.einsum(equation, *values, optimize=True)
    return result


def _is_matrix_product(labels: list[str], output: str, values: list[Array]) -> bool:
    """Whether there are two operands, no label repeats within one, and only labels common to both are summed over."""
    if len(labels) != 2 or not all(len(set(axes)) == len(axes) and axes.isalpha() for axes in (*labels, output)):
        return False
    left, right = map(set, labels)
    summed = (left & right) - set(output)
    sizes = [dict(zip(axes, value.shape, strict=True)) for axes, value in zip(labels, values, strict=True)]
    return left ^ right <= set(output) and all(sizes[0][label] == sizes[1][label] for label in summed)


def _matrix_product(labels: list[str], output: str, values: list[Array]) -> Array:
    """A two-operand equation as one batched product: [*batch, rows, summed] @ [*batch, summed, columns]."""
    left, right = labels
    batch = [label for label in left if label in right and label in output]
    summed = [label for label in left if label in right and label not in output]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    sizes = dict(zip(left, values[0].shape, strict=True)) | dict(zip(right, values[1].shape, strict=True))

    def matrices(axes: str, value: Array, first: list[str], second: list[str]) -> Array:
        moved = value.transpose([axes.index(label) for label in (*batch, *first, *second)])
        ends = [math.prod(sizes[label] for label in group) for group in (first, second)]
        return moved.reshape(*moved.shape[: len(batch)], *ends)

    product = matrices(left, values[0], rows, summed) @ matrices(right, values[1], summed, columns)
    kept = [*batch, *rows, *columns]
    shape = (*product.shape[: len(batch)], *(sizes[label] for label in (*rows, *columns)))
    return product.reshape(shape).transpose([kept.index(label) for label in output])
