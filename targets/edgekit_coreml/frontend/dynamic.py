"""Tensors whose sizes only a run tells: shapes as vectors that the program computes."""

from __future__ import annotations

import numpy as np

from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.values import Unsupported, Value


def expanded(x: Value, shape: Value) -> Var:
    """A tensor broadcast to a shape that the program computes.

    Sizes of 1 are repeated as often as the shape says; others stay as they are, since a shape that broadcasts with
    them says the same, or 1.
    """
    rank = shape.static_shape[0]
    lacking = rank - x.rank
    if lacking < 0:
        raise Unsupported("broadcasts to a shape of lower rank that is computed at run time")
    var = mb.expand_dims(x=x.var, axes=list(range(lacking))) if lacking else x.var
    counts = mb.select(cond=mb.equal(x=mb.shape(x=var), y=1), a=shape.var, b=np.ones(rank, np.int32))
    return mb.tile(x=var, reps=counts)


def index_tuples(places: Var, axis: int) -> Var:
    """All coordinates of every element of a tensor of indices, those along the axis from the tensor: (*shape, rank)."""
    rank = places.rank
    shape = mb.shape(x=places)
    nothing = mb.mul(x=places, y=0)
    columns = []
    for dim in range(rank):
        if dim == axis:
            columns.append(places)
            continue
        size = mb.slice_by_index(x=shape, begin=[dim], end=[dim + 1], squeeze_mask=[True])
        steps = mb.range_1d(start=np.int32(0), end=size, step=np.int32(1))
        along = mb.expand_dims(x=steps, axes=[other for other in range(rank) if other != dim]) if rank > 1 else steps
        columns.append(mb.add(x=nothing, y=along))
    return mb.stack(values=columns, axis=rank)
