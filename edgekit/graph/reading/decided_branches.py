"""Branches that a constant selects: the taken branch replaces the If.

PyTorch's TorchScript exporter writes them, for ``scatter_reduce`` of graph networks with branches of different shapes.
Without its optimizations, ONNX Runtime allocates memory for the wrong branch.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.graph.nodes import constant


def take_decided_branches(graph_model: ir.Model) -> int:
    """Replaces every If with a constant condition by the nodes of its branch, also inside branches and loops.

    Args:
        graph_model: A model whose value names are unique across its graphs. It is changed in place.

    Returns:
        The number of Ifs replaced.
    """
    decided = list(_decided(graph_model.graph))
    for node in decided:
        _take(node)
    return len(decided)


def _decided(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yields the Ifs with a constant condition whose outputs are all tensors."""
    for node in graph.all_nodes():
        if node.op_type == "If" and not node.domain and all(_is_tensor(value) for value in node.outputs):
            condition = constant(node.inputs[0])
            if condition is not None and condition.size == 1:
                yield node


def _take(node: ir.Node) -> None:
    condition = constant(node.inputs[0])
    assert condition is not None
    branch = node.attributes["then_branch" if condition.item() else "else_branch"].as_graph()
    home = node.graph
    assert isinstance(home, ir.Graph)
    results = list(branch.outputs)
    nodes = list(branch)
    branch.outputs.clear()
    branch.remove(nodes)
    for initializer in list(branch.initializers.values()):
        del branch.initializers[str(initializer.name)]
        home.register_initializer(initializer)
    handed_on = [ir.node("Identity", [result]) for result in results]
    for old, result in zip(node.outputs, results, strict=True):
        old.type, old.shape = result.type or old.type, result.shape
    given = [each.outputs[0] for each in handed_on]
    ir.convenience.replace_nodes_and_values(home, node, [node], [*nodes, *handed_on], list(node.outputs), given)


def _is_tensor(value: ir.Value) -> bool:
    return value.type is None or isinstance(value.type, ir.TensorType)
