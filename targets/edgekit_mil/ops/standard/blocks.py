"""Blocks of pixels to channels and back."""

from __future__ import annotations

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value
from edgekit_mil.support.movement import through_int32


@lowering("DepthToSpace", versions=[1, 11, 13, 28])
def depth_to_space(ctx: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Var:
    """Moves channels to blocks of pixels; for floats, CRD is MIL's pixel shuffle and DCR its depth-to-space."""
    if x.is_float:
        if mode == "CRD":
            return mb.pixel_shuffle(x=x.var, upscale_factor=blocksize)
        return mb.depth_to_space(x=x.var, block_size=blocksize)
    batch, channels, height, width = x.static_shape
    depth = channels // blocksize**2
    order = [depth, blocksize, blocksize] if mode == "CRD" else [blocksize, blocksize, depth]
    by_depth = [0, 1, 2, 4, 3] if mode == "CRD" else [0, 3, 1, 4, 2]

    def move(var: Var) -> Var:
        # Columns are moved first, then rows: moving both at once would need rank 6.
        taken_apart = mb.reshape(x=var, shape=[batch, *order, height * width])
        columns_inside = mb.transpose(x=taken_apart, perm=by_depth)
        rows_apart = mb.reshape(x=columns_inside, shape=[batch * depth, blocksize, height, width * blocksize])
        rows_inside = mb.transpose(x=rows_apart, perm=[0, 2, 1, 3])
        return mb.reshape(x=rows_inside, shape=[batch, depth, height * blocksize, width * blocksize])

    return through_int32(x, move)


@lowering("SpaceToDepth", versions=[1, 13, 28])
def space_to_depth(ctx: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Var:
    """Moves blocks of pixels to channels; for floats in order DCR by MIL's operation."""
    if x.is_float and mode == "DCR":
        return mb.space_to_depth(x=x.var, block_size=blocksize)
    batch, depth, height, width = x.static_shape
    rows, columns = height // blocksize, width // blocksize
    by_block = [0, 1, 2, 4, 3] if mode == "CRD" else [0, 2, 4, 1, 3]

    def move(var: Var) -> Var:
        rows_apart = mb.reshape(x=var, shape=[batch * depth, rows, blocksize, width])
        rows_outside = mb.transpose(x=rows_apart, perm=[0, 2, 1, 3])
        columns_apart = mb.reshape(x=rows_outside, shape=[batch, depth, blocksize, rows * columns, blocksize])
        blocks_outside = mb.transpose(x=columns_apart, perm=by_block)
        return mb.reshape(x=blocks_outside, shape=[batch, depth * blocksize**2, rows, columns])

    return through_int32(x, move)
