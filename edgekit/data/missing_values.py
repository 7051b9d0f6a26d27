"""Which inputs may hold NaN: those of which the graph itself takes NaN for a value that is missing."""

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
"""Operators by domain that move elements, or compute each from those at its place: NaN in an element stays in it."""


def missing_value_inputs(graph: ir.Graph) -> frozenset[str]:
    """The inputs of which some node takes NaN for a missing value.

    These nodes are ensembles of trees, whose nodes say which way NaN goes, an Imputer that replaces NaN, and IsNaN.
    They read the input itself, or what operators make of it that treat every element alone. Behind a product of
    matrices or a Softmax, one NaN has made others of all elements, so that nothing is known to be missing any more: the
    IsNaN behind the Softmax of an attention says nothing of the input.

    Args:
        graph: The graph as it was exported: what replaces a tree later may compare without a sign of NaN.
    """
    return frozenset(
        str(value.name)
        for value in graph.inputs
        if value.dtype is not None and value.dtype.is_floating_point() and _is_asked_for_missing(value)
    )


def _is_asked_for_missing(source: ir.Value) -> bool:
    """Whether elements of a value reach a node that takes NaN for a missing value."""
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
    """Whether what it gives cannot be NaN any more."""
    return node.op_type == "Cast" and not ir.DataType(node.attributes.get_int("to")).is_floating_point()


def _takes_nan_for_missing(node: ir.Node) -> bool:
    if node.domain == ML_DOMAIN and node.op_type == "Imputer":
        return math.isnan(node.attributes.get_float("replaced_value_float", 0.0))
    return (node.domain == ML_DOMAIN and node.op_type in _TREES) or (not node.domain and node.op_type == "IsNaN")
