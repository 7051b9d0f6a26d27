"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mlruntime.kernels.products import product
from edgekit_mlruntime.precision import HELD_TYPES
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("linear")
def linear(call: Call, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias`` of ``x`` [*D, D_in], ``weight`` [D_out, D_in] and ``bias`` [D_out]."""
    operands = {"x": x, "weight": weight} if bias is None else {"x": x, "weight": weight, "bias": bias}
    converted = {name: _as_output(call, value) for name, value in operands.items()}
    return product(call, "linear", converted, transposed=True)


@kernel("matmul")
def matmul(call: Call, x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Matrix product with NumPy's broadcasting; transposing swaps the last two axes and does not change vectors."""
    if transpose_x and x.ndim > 1:
        x = x.swapaxes(-1, -2)
    operands = {"x": _as_output(call, x), "y": _as_output(call, y)}
    return product(call, "matmul", operands, transposed=transpose_y and y.ndim > 1)


def _as_output(call: Call, value: Array) -> Array:
    """An operand converted to the output's type, from which a constant's type may differ from iOS 17 on."""
    return value.astype(HELD_TYPES[call.output.dtype], copy=False)


@kernel("einsum")
def einsum(call: Call, values: list[Array], equation: str) -> Array:
    """Sum of products in Einstein's notation; dimensions of size 1 are broadcast."""
    operands, _, output = equation.replace(" ", "").partition("->")
    labels = operands.split(",")
    if _is_matrix_product(labels, output, values):
        return _matrix_product(call, labels, output, values)
    result: Array = np.einsum(equation, *values, optimize=True)
    return result


def _is_matrix_product(labels: list[str], output: str, values: list[Array]) -> bool:
    """Whether there are two operands, no label repeats in an operand, and only labels of both are summed over."""
    if len(labels) != 2 or not all(len(set(axes)) == len(axes) and axes.isalpha() for axes in (*labels, output)):
        return False
    left, right = map(set, labels)
    summed = (left & right) - set(output)
    sizes = [dict(zip(axes, value.shape, strict=True)) for axes, value in zip(labels, values, strict=True)]
    return left ^ right <= set(output) and all(sizes[0][label] == sizes[1][label] for label in summed)


def _matrix_product(call: Call, labels: list[str], output: str, values: list[Array]) -> Array:
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

    operands = {"left": matrices(left, values[0], rows, summed), "right": matrices(right, values[1], summed, columns)}
    result = product(call, "einsum", operands)
    kept = [*batch, *rows, *columns]
    shape = (*result.shape[: len(batch)], *(sizes[label] for label in (*rows, *columns)))
    return result.reshape(shape).transpose([kept.index(label) for label in output])
