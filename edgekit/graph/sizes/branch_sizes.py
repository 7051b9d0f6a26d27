"""Sizes stated in the branches of an If that prevent inference from finding the actual sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from edgekit.model import bodies, values_of


def forget_lone_names(graph_model: ir.Model) -> bool:
    """Makes sizes unknown, in place, whose name occurs in the output of a branch and nowhere else.

    tf2onnx gives each such size a separate name, so that the outputs of the two branches, and the values they are
    computed from, seem to differ.

    Returns:
        Whether there was one.
    """
    outputs = [
        value
        for node in graph_model.graph.all_nodes()
        if node.op_type == "If" and not node.domain
        for branch in bodies(node)
        for value in branch.outputs
        if value.shape is not None and value.producer() is not None
    ]
    if not outputs:
        return False
    count = Counter(name for value in set(values_of(graph_model)) for name in _names(value))
    found = False
    for value in outputs:
        lone = {name for name in _names(value) if count[name] == 1}
        if lone:
            sizes = [
                None if isinstance(dim, ir.SymbolicDim) and dim.value in lone else dim for dim in value.shape or ()
            ]
            value.shape, found = ir.Shape(sizes), True
    return found


def _names(value: ir.Value) -> Iterator[str]:
    for dim in value.shape or ():
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
            yield dim.value
