"""Products of matrices."""

from __future__ import annotations

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Value


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
