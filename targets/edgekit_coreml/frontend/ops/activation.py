"""Activation functions."""

from __future__ import annotations

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Value


@lowering("Relu", versions=[6, 13, 14])
def relu(ctx: Context, x: Value) -> Var:
    """max(x, 0)."""
    if x.is_integer:
        return mb.maximum(x=x.var, y=0)
    return mb.relu(x=x.var)
