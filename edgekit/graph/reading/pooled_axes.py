"""Pooling over more axes than runtimes support becomes pooling over the axes that it actually pools.

The standard allows any number of spatial axes. Keras on JAX writes MaxPooling2D as a MaxPool over four axes: batch,
height, width and channels, with a window of one element along the first and the last. ONNX Runtime and device runtimes
pool up to three axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

MOST_AXES = 3
"""The most spatial axes that runtimes pool."""
_POOLS = {"AveragePool", "LpPool", "MaxPool"}
_LEADING = 2
"""The axes before the spatial ones: batch and channels."""


def pool_fewer_axes(graph: ir.Graph, opset: int) -> int:
    """Replaces pools over more axes than runtimes support, if they change at most three axes, in place.

    The pooled axes are moved behind the others, and the axes before them become batch and channels.

    Returns:
        The number of pools replaced.
    """
    pools = [node for node in graph.all_nodes() if _kept_and_pooled(node) is not None]
    for node in pools:
        kept_and_pooled = _kept_and_pooled(node)
        assert kept_and_pooled is not None
        build = NodeBuilder(opset, node_name(node))
        result = _pooled(node, build, *kept_and_pooled)
        home = node.graph
        assert isinstance(home, ir.Graph)
        for constant in build.initializers:
            home.register_initializer(constant)
        old = node.outputs[0]
        result.type, result.shape = old.type, old.shape
        ir.convenience.replace_nodes_and_values(home, node, [node], build.nodes, [old], [result])
    return len(pools)


def _pooled(node: ir.Node, build: NodeBuilder, kept: Sequence[int], pooled: Sequence[int]) -> ir.Value:
    """Builds a pool over only the pooled axes that has the same result."""
    x = node.inputs[0]
    assert x is not None
    order = [*range(_LEADING), *kept, *pooled]
    moved = build("Transpose", x, perm=order)
    split = len(order) - len(pooled)
    sizes = build("Shape", moved)
    channels_and_pooled = build.slice(sizes, [split - 1], [len(order)], [0])
    flat = build("Reshape", moved, build("Concat", np.array([-1], np.int64), channels_and_pooled, axis=0))
    spatial = [axis - _LEADING for axis in pooled]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    ends = len(kept) + len(pooled)
    for name in ("dilations", "kernel_shape", "strides"):
        if name in attributes:
            attributes[name] = [attributes[name][axis] for axis in spatial]
    if "pads" in attributes:
        pads = attributes["pads"]
        attributes["pads"] = [pads[axis] for axis in spatial] + [pads[axis + ends] for axis in spatial]
    small = build(node.op_type, flat, **attributes)
    leading = build.slice(sizes, [0], [split], [0])
    behind = build.slice(build("Shape", small), [_LEADING], [_LEADING + len(pooled)], [0])
    back = build("Reshape", small, build("Concat", leading, behind, axis=0))
    return build("Transpose", back, perm=[int(place) for place in np.argsort(order)])


def _kept_and_pooled(node: ir.Node) -> tuple[list[int], list[int]] | None:
    """Returns the axes that a pool over too many axes keeps, and those that it pools; None for any other node."""
    if node.op_type not in _POOLS or node.domain:
        return None
    window = list(node.attributes.get_ints("kernel_shape", ()))
    count = len(window)
    if count <= MOST_AXES or len(node.outputs) > 1:
        return None
    ones, zeros = [1] * count, [0] * 2 * count
    strides, dilations, pads = (
        list(node.attributes.get_ints(name, default)) or default
        for name, default in (("strides", ones), ("dilations", ones), ("pads", zeros))
    )
    still = [
        (window[axis], strides[axis], dilations[axis], pads[axis], pads[axis + count]) == (1, 1, 1, 0, 0)
        for axis in range(count)
    ]
    kept = [axis + _LEADING for axis in range(count) if still[axis]]
    pooled = [axis + _LEADING for axis in range(count) if not still[axis]]
    return (kept, pooled) if 0 < len(pooled) <= MOST_AXES else None
