"""Vectors along the channels, which are axis 1."""

from __future__ import annotations

from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.values import Unsupported, Value


def along_channels(value: Value, rank: int) -> Var:
    """A vector [C] that broadcasts along axis 1 of a tensor of some rank.

    Raises:
        Unsupported: That tensor has no axis 1.
    """
    if rank < 2:
        raise Unsupported(f"needs channels, found rank {rank}")
    shape = [1, -1, *([1] * (rank - 2))]
    if value.is_constant:
        return mb.const(val=value.operand.reshape(shape))
    return mb.reshape(x=value.var, shape=shape)
