"""Dynamic dimensions that have no name, although the file has a text or a number there."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.model import computed_values

_NAMELESS = ("", "?", "-1", "None")
"""What exporters write for a dynamic dimension, although it looks like a name that two dimensions could share."""


def forget_nameless_sizes(graph_model: ir.Model) -> None:
    """Makes dimensions unknown, in place, that have a negative size or a name which says only that they are dynamic."""
    for value in computed_values(graph_model):
        if value.shape is not None:
            value.shape = ir.Shape([None if _is_nameless(dim) else dim for dim in value.shape])


def _is_nameless(dim: int | ir.SymbolicDim) -> bool:
    return dim < 0 if isinstance(dim, int) else dim.value in _NAMELESS
