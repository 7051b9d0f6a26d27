"""Pools of tensors without a batch, which ONNX does not have: PyTorch's older exporter writes them for such pictures.

``max_pool2d`` of PyTorch also takes [channels, height, width]; the file then has a pool along two axes of a tensor of
three axes, which the standard reads as batch, channels and one axis.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes
from edgekit.model import Model, node_name

_POOLS = {"AveragePool", "LpPool", "MaxPool"}


def with_batches_for_pools(model: Model) -> tuple[Model, int]:
    """Returns the model with a batch of one around pools along all axes but the first, and the number of such pools.

    A pool whose input's number of axes is not known stays; that of what follows a pool is known once it has a batch.
    """
    count = 0
    while any(node.op_type in _POOLS for node in model.graph.all_nodes()):
        try:
            inferred = infer_shapes(model, strict=False)
        except ContradictionError:  # something else is wrong
            break
        graph = inferred.graph_model.graph
        pools = [node for node in graph.all_nodes() if _lacks_a_batch(node)]
        if not pools:
            break
        for node in pools:
            _give_a_batch(node, model.opset)
        model, count = inferred, count + len(pools)
    return model, count


def _lacks_a_batch(node: ir.Node) -> bool:
    x = node.inputs[0] if node.inputs else None
    if node.op_type not in _POOLS or node.domain or x is None or x.shape is None:
        return False
    return bool(x.shape.rank() == len(node.attributes.get_ints("kernel_shape", ())) + 1)


def _give_a_batch(node: ir.Node, opset: int) -> None:
    build = NodeBuilder(opset, node_name(node))
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    pooled = build.several(len(node.outputs), node.op_type, build.unsqueeze(node.inputs[0], [0]), **attributes)
    results = [build.squeeze(value, [0]) for value in pooled]
    home = node.graph
    assert isinstance(home, ir.Graph)
    for constant in build.initializers:
        home.register_initializer(constant)
    for result, old in zip(results, node.outputs, strict=True):
        result.type = old.type
    ir.convenience.replace_nodes_and_values(home, node, [node], build.nodes, list(node.outputs), results)
