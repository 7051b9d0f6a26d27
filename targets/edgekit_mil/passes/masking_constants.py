"""Constants that mask positions, such as -3.4e38, stay finite where masked numbers are read in float16.

If a whole row is masked, all of its numbers are that constant, and Softmax makes equal shares of them. Cast to float16
they would be infinite, and the shares NaN, which spreads to rows that attend to it: 0 times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_mil.core.mil import block_context_manager, mb

FARTHEST = np.float32(6e4)
"""Larger numbers are clipped to this one, so that scores up to 5,000 can be added without leaving float16."""
MASKING = frozenset({"add", "mul", "select", "sub"})
"""Operations by which constants mask."""


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def saturate_casts(block: Any, masking: Collection[str]) -> None:
    """Bounds the results of operations where they are cast to float16, in place.

    Args:
        block: A block of a program whose types are chosen.
        masking: Names of the operations.
    """
    for operation in list(block.operations):
        for inner in operation.blocks:
            saturate_casts(inner, masking)
        if operation.op_type != "cast" or operation.dtype.val != "fp16":
            continue
        source = operation.x.op
        if source is None or source.name not in masking or source.op_type not in MASKING:
            continue
        old = operation.outputs[0]
        bounded = mb.clip(
            x=operation.x, alpha=-FARTHEST, beta=FARTHEST, before_op=operation, name=f"{old.name}_bounded"
        )
        new = mb.cast(x=bounded, dtype="fp16", before_op=operation, name=f"{old.name}_of_bounded")
        if block.try_replace_uses_of_var_after_op(anchor_op=operation, old_var=old, new_var=new):
            block.remove_ops([operation])
