"""Matrix products and attention."""

from __future__ import annotations

import math

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.activation import normalized_exponentials
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


def times_transposed(b: Builder, x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` of ``x`` [*D, D_in] and ``weight`` [D_out, D_in]."""
    weight = b.swapped(b.cast(weight, x.dtype))
    if x.rank == 1:
        return b.squeeze(b.matmul(b.expand(x, [0]), weight), [0])
    if x.rank == 2:
        return b.matmul(x, weight)
    sizes = b.all_sizes(x)
    flat = b.reshape(x, [-1, sizes[-1]])
    made = b.matmul(flat, weight)
    return b.reshape(made, [*sizes[:-1], b.size(weight, 1)])


@lowering("linear")
def linear(b: Builder, call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias`` of ``x`` [*D, D_in], ``weight`` [D_out, D_in] and ``bias`` [D_out]."""
    made = times_transposed(b, x, weight)
    return made if bias is None else b.add(made, b.cast(bias, made.dtype))


@lowering("matmul")
def matmul(
    b: Builder, call: Call, x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    """Matrix product with NumPy's broadcasting; transposing swaps the last two axes and does not change vectors."""
    if x.array is not None and y.array is None:
        x = b.cast(x, y.dtype)
    y = b.cast(y, x.dtype)
    rows, columns = x.rank == 1, y.rank == 1
    x = b.expand(x, [0]) if rows else b.swapped(x) if transpose_x else x
    y = b.expand(y, [1]) if columns else b.swapped(y) if transpose_y else y
    made = b.matmul(x, y)
    return b.squeeze(made, [*([made.rank - 2] if rows else []), *([made.rank - 1] if columns else [])])


@lowering("einsum")
def einsum(b: Builder, call: Call, values: list[Tensor], equation: str) -> Tensor:
    """Sum of products of two operands in Einstein's notation."""
    operands, _, output = equation.replace(" ", "").partition("->")
    labels = operands.split(",")
    if len(values) != 2 or any(len(set(axes)) != len(axes) for axes in labels):
        raise CannotTranslate(f"the equation {equation}")
    left, right = labels
    x, y = values
    # Dimensions that only one operand has and the result lacks are summed first.
    x, left = _summed(b, x, left, right + output)
    y, right = _summed(b, y, right, left + output)
    batch = [label for label in left if label in right and label in output]
    shared = [label for label in left if label in right and label not in output]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    sizes: dict[str, int | Tensor] = {}
    for axes, value in ((left, x), (right, y)):
        for place, label in enumerate(axes):
            if sizes.get(label, 1) == 1:
                sizes[label] = b.size(value, place)

    def matrices(value: Tensor, axes: str, first: list[str], second: list[str]) -> Tensor:
        value = b.broadcast(value, [sizes[label] for label in axes])
        moved = b.transpose(value, [axes.index(label) for label in (*batch, *first, *second)])
        ends = [_product(b, [sizes[label] for label in group]) for group in (first, second)]
        return b.reshape(moved, [*(sizes[label] for label in batch), *ends])

    made = b.matmul(matrices(x, left, rows, shared), matrices(y, right, shared, columns))
    kept = [*batch, *rows, *columns]
    spread = b.reshape(made, [sizes[label] for label in kept])
    return b.transpose(spread, [kept.index(label) for label in output])


def _summed(b: Builder, x: Tensor, axes: str, elsewhere: str) -> tuple[Tensor, str]:
    gone = [place for place, label in enumerate(axes) if label not in elsewhere]
    return b.reduce("reduce_sum", x, gone, keep=False), "".join(label for label in axes if label in elsewhere)


def _product(b: Builder, sizes: list[int | Tensor]) -> int | Tensor:
    known = math.prod(size for size in sizes if isinstance(size, int))
    result: int | Tensor = known
    for size in sizes:
        if isinstance(size, Tensor):
            result = b.mul(size, result)
    return result


@lowering("scaled_dot_product_attention", opset=18)
def scaled_dot_product_attention(
    b: Builder, call: Call, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    """``softmax(query @ key.T / sqrt(E) + mask) @ value``; a bool mask excludes the positions where it is False."""
    width = query.shape[-1]
    if width is None:
        raise CannotTranslate("the size of the query's last dimension is open")
    scores = b.matmul(b.mul(query, 1 / math.sqrt(width)), b.swapped(key))
    if attn_mask is not None:
        if attn_mask.dtype == np.bool_:
            scores = b.select(attn_mask, scores, -np.inf)
        else:
            scores = b.add(scores, b.cast(attn_mask, scores.dtype))
    return b.matmul(normalized_exponentials(b, scores, -1), value)
