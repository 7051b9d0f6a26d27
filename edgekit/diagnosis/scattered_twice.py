"""Scatters that write several values to one place: ONNX does not define which one remains, and runtimes differ.

The specification of ScatterElements and ScatterND requires indices without duplicates if ``reduction`` is ``none``.
PyTorch's exporter writes ``index_add`` as such a scatter, which loses the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.execution.inner_values import InnerValues
from edgekit.execution.reference import NotRunnableError
from edgekit.model import Arrays, Model, node_name

_SCATTERS = ("Scatter", "ScatterElements", "ScatterND")


def scattered_twice(model: Model, examples: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    """Returns warnings of main graph nodes that write several values to one place in one of the examples.

    Args:
        model: The model in the form in which its inputs are fed.
        examples: The examples to execute the model on, each with one array per input.
    """
    nodes = [node for node in model.graph if node.op_type in _SCATTERS and not node.domain and _overwrites(node)]
    read = [value for node in nodes for value in node.inputs[1:3] if value is not None]
    stored = {value.name or "": value.const_value.numpy() for value in read if value.const_value is not None}
    names = {value.name or "" for value in read} - stored.keys()
    warnings: dict[str, str] = {}
    for feeds in examples if nodes else ():
        try:
            found = stored | InnerValues(model, dict(feeds)).numbers(names)
        except NotRunnableError:
            continue  # verification reports it
        for node in nodes:
            lost = _lost_values(node, found)
            if lost and node_name(node) not in warnings:
                warnings[node_name(node)] = (
                    f"node {node_name(node)!r} ({node.op_type}) writes several values to one place (overwritten in a "
                    f"sample: {lost}): ONNX leaves open which one stays, and runtimes differ; if a sum is meant, as "
                    "in PyTorch's index_add, export with dynamo=True, or use scatter_add"
                )
    return list(warnings.values())


def _overwrites(node: ir.Node) -> bool:
    return node.attributes.get_string("reduction", "none") == "none"


def _lost_values(node: ir.Node, found: Arrays) -> int:
    """Returns how many values a node writes to a place to which it also writes a different value."""
    indices, updates = (found[value.name or ""] for value in node.inputs[1:3] if value is not None)
    if node.op_type == "ScatterND":
        places = indices.reshape(-1, indices.shape[-1]) if indices.size else indices.reshape(0, 1)
        values = updates.reshape(len(places), -1) if len(places) else updates.reshape(0, 1)
    else:
        axis = node.attributes.get_int("axis", 0) % indices.ndim
        places = np.indices(indices.shape).reshape(indices.ndim, -1).T
        places[:, axis] = indices.ravel()
        values = updates.reshape(-1, 1)
    order = np.lexsort(places.T)
    same = (places[order][1:] == places[order][:-1]).all(1)
    other = (values[order][1:] != values[order][:-1]).any(1)
    return int(np.count_nonzero(same & other))
