"""Which inputs may hold NaN: those where the graph itself treats NaN as a missing value."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx_ir as ir

from edgekit.data.words import KEEPS_VALUES
from edgekit.graph.sizes.ml_shapes import ML_DOMAIN

_TREES = {"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}
_HAND_ON: Mapping[str, frozenset[str]] = {
    "": KEEPS_VALUES
    | {"Abs", "Add", "Ceil", "Clip", "Div", "Exp", "Floor", "Gather", "GatherElements", "GatherND", "Log", "Max", "Min"}
    | {"Mul", "Neg", "Pad", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sqrt", "Sub", "Tanh", "Where"},
    ML_DOMAIN: frozenset({"ArrayFeatureExtractor", "FeatureVectorizer", "Scaler"}),
}
"""Operators, by domain, that move elements or compute each element from those at its place: NaN does not spread."""


def missing_value_inputs(graph: ir.Graph) -> frozenset[str]:
    """The names of the inputs in which some node treats NaN as a missing value.

    Such a node is an ensemble of trees, whose branches say which way NaN goes, an Imputer that replaces NaN, or IsNaN.
    It reads the input itself, or the result of operators that compute every element separately. A matrix product or a
    Softmax spreads one NaN to other elements, so that its result no longer shows which value is missing: the IsNaN
    behind the Softmax of an attention says nothing about the input.

    Args:
        graph: The graph as it was exported: a later replacement of a tree may not show how the tree treats NaN.
    """
    return frozenset(
        str(value.name)
        for value in graph.inputs
        if value.dtype is not None and value.dtype.is_floating_point() and _is_asked_for_missing(value)
    )


def _is_asked_for_missing(source: ir.Value) -> bool:
    """Whether elements of a value reach a node that treats NaN as a missing value."""
    waiting, seen = [source], {source}
    while waiting:
        for node, _ in waiting.pop().uses():
            if _takes_nan_for_missing(node):
                return True
            if node.op_type in _HAND_ON.get(node.domain, ()) and not _casts_to_integers(node):
                waiting.extend(made for made in node.outputs if made not in seen)
                seen.update(node.outputs)
    return False


def _casts_to_integers(node: ir.Node) -> bool:
    """Whether a node casts to a type without NaN."""
    return node.op_type == "Cast" and not ir.DataType(node.attributes.get_int("to")).is_floating_point()


def _takes_nan_for_missing(node: ir.Node) -> bool:
    if node.domain == ML_DOMAIN and node.op_type == "Imputer":
        return math.isnan(node.attributes.get_float("replaced_value_float", 0.0))
    return (node.domain == ML_DOMAIN and node.op_type in _TREES) or (not node.domain and node.op_type == "IsNaN")
