"""Matrix products, computed by NumPy or ONNX Runtime, whichever is faster."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from edgekit_mlruntime.kernels.onnx_op import run_onnx_op
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call

_SMALL_WORK = 3e4
"""Multiply-adds below which NumPy finishes before a session has started, and uses no threads."""


def product(call: Call, key: Hashable, operands: Mapping[str, Array | None], *, transposed: bool = False) -> Array:
    """``x @ y + bias`` with NumPy's broadcasting.

    Large float32 products go through ONNX Runtime: NumPy's BLAS is not optimized for every vector unit, and its threads
    wait for each other actively, which on a busy machine takes a hundred times as long.

    Args:
        call: The operation.
        key: Distinguishes the products of one operation.
        operands: x, y and optionally a bias [columns], under the names of the operation's inputs: those that are
            constant in the program may be cached. All have the same type.
        transposed: Whether the last two axes of y are to be swapped first.

    Returns:
        A new array of the operands' type.
    """
    (first, x), (second, y), *rest = ((name, value) for name, value in operands.items() if value is not None)
    bias = dict(rest)
    columns = y.shape[-2 if transposed else -1]
    work = x.size * columns
    if x.dtype != np.float32 or min(x.ndim, y.ndim) < 2 or work < _SMALL_WORK:
        result = np.asarray(x @ (y.swapaxes(-1, -2) if transposed else y))
        for values in bias.values():
            result += values
        return result
    if y.ndim == 2:
        rows = x.reshape(-1, x.shape[-1])
        inputs = {first: rows, second: y, **bias}
        shape = (len(rows), columns)
        result = run_onnx_op(call, key, "Gemm", inputs, work=work, shape=shape, transB=int(transposed))
        return result.reshape(*x.shape[:-1], columns)
    y = y.swapaxes(-1, -2) if transposed else y
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], columns)
    result = run_onnx_op(call, key, "MatMul", {first: x, second: y}, work=work, shape=shape)
    for values in bias.values():
        result += values
    return result
