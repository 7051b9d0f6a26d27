"""Merges trees that are evaluated separately into one ensemble: what is computed from a leaf becomes its weight.

A tree gives one of a few numbers. Whatever is computed from that number alone can be computed once for each leaf, and
trees that are only added up are one ensemble. skl2onnx writes an isolation forest as 200 ensembles of one tree each,
followed by tables and 25 operators that turn the number of a leaf into the length of its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.model import Model

_ML_DOMAIN = "ai.onnx.ml"
_TREES = "TreeEnsembleRegressor"
_OPERATORS = """
    Abs Add And Cast Ceil Clip Div Equal Exp Floor Greater GreaterOrEqual Identity Less LessOrEqual Log Max Min Mul Neg
    Not Or Pow Reciprocal Relu Sigmoid Sign Sqrt Sub Tanh Where
"""
_ELEMENTWISE: Mapping[str, frozenset[str]] = {
    "": frozenset(_OPERATORS.split()),
    _ML_DOMAIN: frozenset({"LabelEncoder"}),
}
"""Operators, by domain, that compute every element from those at its place."""
MOST_NODES = 64
"""Most nodes between a tree and the last value that is moved into its leaves."""


def tabulate_trees(graph_model: ir.Model) -> bool:
    """Moves what is computed from a tree alone into its leaves, and merges trees that are added up, in place.

    Both apply to ensembles with one target that sum up, without base values and without a transform at the end.

    Returns:
        Whether anything changed.
    """
    graph = graph_model.graph
    found = [node for node in graph if _is_plain(node) and len(set(_ints(node, "nodes_treeids"))) == 1]
    changed = [_taken_into_leaves(node, graph_model) for node in found]
    sums = [node for node in graph if node.op_type == "Sum" and not node.domain and len(node.inputs) > 1]
    if not any([*changed, *[_put_together(node, graph) for node in sums]]):
        return False
    RemoveUnusedNodesPass()(graph_model)  # nodes that picked columns
    return True


def _is_plain(node: ir.Node) -> bool:
    """Whether a node gives the sum of one weight for each of its trees, [n, 1]."""
    attributes = node.attributes
    return (
        (node.domain, node.op_type) == (_ML_DOMAIN, _TREES)
        and attributes.get_int("n_targets", 1) == 1
        and attributes.get_string("aggregate_function", "SUM") == "SUM"
        and attributes.get_string("post_transform", "NONE") == "NONE"
        and not attributes.get_floats("base_values", ())
        and not any(name.endswith("_as_tensor") for name in attributes)
        and not any(attributes.get_ints("target_ids", ()))
    )


def _taken_into_leaves(tree: ir.Node, graph_model: ir.Model) -> bool:
    """Makes the last value that is computed from a tree alone the tree's own output, in place.

    Returns:
        Whether there is such a value, and the tree was replaced.
    """
    region = _region(tree, graph_model.graph)
    inside = {tree, *region}
    reached = [value for node in inside for value in node.outputs]
    left = [
        value for value in reached if value.is_graph_output() or any(use.node not in inside for use in value.uses())
    ]
    leaves = list(zip(_ints(tree, "target_treeids"), _ints(tree, "target_nodeids"), strict=True))
    if len(left) != 1 or left[0] is tree.outputs[0] or len(set(leaves)) != len(leaves):
        return False
    if tree.attributes.get_strings("nodes_modes").count("LEAF") != len(leaves):
        return False
    weights = np.asarray(tree.attributes.get_floats("target_weights"), np.float32)
    results = _computed(region, tree.outputs[0], left[0], weights, graph_model)
    if results is None:
        return False
    attributes = [each for each in tree.attributes.values() if each.name != "target_weights"]
    attributes.append(ir.AttrFloat32s("target_weights", results.tolist()))
    _replace(graph_model.graph, [tree, *region], tree.inputs, attributes, left[0])
    return True


def _region(tree: ir.Node, graph: ir.Graph) -> list[ir.Node]:
    """The nodes that read only a tree's number, values computed from it, and single constants, in the order found."""
    known, nodes = {tree.outputs[0]}, list[ir.Node]()
    waiting = [tree.outputs[0]]
    while waiting and len(nodes) < MOST_NODES:
        for node, _ in waiting.pop().uses():
            if node in nodes or node.graph is not graph or not _follows(node, known):
                continue
            nodes.append(node)
            known.update(node.outputs)
            waiting = [*known]  # nodes that read this one's result may follow now
    return nodes


def _follows(node: ir.Node, known: set[ir.Value]) -> bool:
    """Whether a node computes each element from the elements of known values at its place and single constants."""
    if node.op_type == "Reshape" and not node.domain:
        return node.inputs[0] in known and _constant(node.inputs[1]) == [-1, 1]
    if node.op_type not in _ELEMENTWISE.get(node.domain, ()) or len(node.outputs) != 1:
        return False
    return all(value is None or value in known or len(_constant(value) or ()) == 1 for value in node.inputs)


def _constant(value: ir.Value | None) -> list[object] | None:
    """The elements of a constant of at most two elements; None for any other value."""
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    return None if tensor is None or tensor.size > 2 else list(tensor.numpy().ravel().tolist())


def _computed(
    nodes: Sequence[ir.Node], start: ir.Value, end: ir.Value, weights: np.ndarray, graph_model: ir.Model
) -> np.ndarray | None:
    """What nodes compute from the weights of leaves, with ONNX Runtime's kernels as in the whole graph.

    Returns:
        A number for each weight; None if a weight is not finite, or the results are not one finite float32 for each.
    """
    if not np.isfinite(weights).all():
        return None
    constants: dict[str, onnx.TensorProto] = {}
    for node in nodes:
        for value in node.inputs:
            tensor = ir.convenience.get_const_tensor(value) if value is not None and value is not start else None
            if tensor is not None and value is not None:
                constants[value.name or ""] = onnx.numpy_helper.from_array(tensor.numpy(), value.name)
    graph = onnx.helper.make_graph(
        [ir.to_proto(node) for node in nodes],
        "leaves",
        [onnx.helper.make_tensor_value_info(start.name or "", onnx.TensorProto.FLOAT, [len(weights), 1])],
        [onnx.helper.make_empty_tensor_value_info(end.name or "")],
        list(constants.values()),
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in graph_model.opset_imports.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=graph_model.ir_version)
    try:
        reference = Reference(Model(ir.from_proto(model)))
        results = reference.run({start.name or "": weights.reshape(-1, 1)})[end.name or ""]
    except NotRunnableError:
        return None
    if not isinstance(results, np.ndarray) or results.dtype != np.float32 or results.shape != (len(weights), 1):
        return None
    return results.ravel() if np.isfinite(results).all() else None


@dataclass(frozen=True)
class _Summand:
    """An ensemble of one or more trees that a sum adds."""

    node: ir.Node
    x: ir.Value
    """The samples, whose columns the ensemble reads."""
    columns: np.ndarray | None
    """The column of the samples for each feature of the ensemble; None if features are the columns themselves."""

    def features(self) -> list[int]:
        numbers = np.asarray(self.node.attributes.get_ints("nodes_featureids"))
        if self.columns is None:
            return list(numbers.tolist())
        leaves = np.asarray(self.node.attributes.get_strings("nodes_modes")) == "LEAF"
        return list(self.columns[np.where(leaves, 0, numbers)].tolist())


def _put_together(total: ir.Node, graph: ir.Graph) -> bool:
    """Turns a sum of ensembles over the same samples into one ensemble, in place.

    Returns:
        Whether ``total`` is such a sum.
    """
    summands: list[_Summand] = []
    for value in total.inputs:
        node = None if value is None else value.producer()
        if node is None or node.graph is not graph or not _is_plain(node):
            return False
        if len(node.outputs[0].uses()) != 1 or node.outputs[0].is_graph_output() or node.inputs[0] is None:
            return False
        x, columns = _samples(node.inputs[0])
        summands.append(_Summand(node, x, columns))
    if any(each.x is not summands[0].x for each in summands):
        return False
    lists: dict[str, list[Any]] = {}
    count = 0
    for each in summands:
        numbers = {
            number: count + place for place, number in enumerate(dict.fromkeys(_ints(each.node, "nodes_treeids")))
        }
        count += len(numbers)
        attributes = each.node.attributes
        size = len(attributes.get_ints("nodes_treeids"))
        own: dict[str, Sequence[Any]] = {
            "nodes_treeids": [numbers[number] for number in _ints(each.node, "nodes_treeids")],
            "nodes_featureids": each.features(),
            "nodes_missing_value_tracks_true": attributes.get_ints("nodes_missing_value_tracks_true", ()) or [0] * size,
            "target_treeids": [numbers[number] for number in _ints(each.node, "target_treeids")],
            "nodes_modes": attributes.get_strings("nodes_modes"),
            "nodes_values": attributes.get_floats("nodes_values"),
            "target_weights": attributes.get_floats("target_weights"),
            **{name: _ints(each.node, name) for name in _KEPT},
        }
        for name, entries in own.items():
            lists.setdefault(name, []).extend(entries)
    merged = [ir.AttrInt64("n_targets", 1), *(_list(name, entries) for name, entries in lists.items())]
    _replace(graph, [*(each.node for each in summands), total], [summands[0].x], merged, total.outputs[0])
    return True


_KEPT = ("nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "target_nodeids", "target_ids")


def _list(name: str, entries: Sequence[Any]) -> ir.Attr:
    if name == "nodes_modes":
        return ir.Attr(name, ir.AttributeType.STRINGS, entries)
    is_float = name in ("nodes_values", "target_weights")
    return ir.Attr(name, ir.AttributeType.FLOATS if is_float else ir.AttributeType.INTS, entries)


def _samples(value: ir.Value) -> tuple[ir.Value, np.ndarray | None]:
    """The value that columns are picked from, and the columns; ``value`` itself and None if none are picked."""
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Gather") or node.inputs[0] is None:
        return value, None
    picked = ir.convenience.get_const_tensor(node.inputs[1]) if node.inputs[1] is not None else None
    rank = None if node.inputs[0].shape is None else node.inputs[0].shape.rank()
    if picked is None or rank != 2 or node.attributes.get_int("axis", 0) != 1 or len(picked.shape) != 1:
        return value, None
    columns = picked.numpy()
    return (value, None) if (columns < 0).any() else (node.inputs[0], columns)


def _ints(node: ir.Node, name: str) -> Sequence[int]:
    return node.attributes.get_ints(name, ())


def _replace(
    graph: ir.Graph,
    old: Sequence[ir.Node],
    inputs: Sequence[ir.Value | None],
    attributes: Sequence[ir.Attr],
    end: ir.Value,
) -> None:
    """Replaces nodes by one ensemble, whose output takes the place of their last value."""
    made = ir.Node(_ML_DOMAIN, _TREES, inputs, attributes, num_outputs=1, name=old[0].name)
    ir.convenience.replace_nodes_and_values(graph, old[-1], old, [made], [end], made.outputs)
