"""Products of a constant matrix with a tensor along one of its axes."""

from __future__ import annotations

import numpy as np

from edgekit_coreml.frontend.mil import Var, mb


def product_along(x: Var, matrix: np.ndarray, axis: int) -> Var:
    """``matrix`` [out, in] times x along an axis, which has ``in`` elements before and ``out`` after."""
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
