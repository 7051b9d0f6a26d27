"""Leaves out the long lists that trees, linear models, support vector machines and vocabularies hold as attributes.

Types, shapes and versions of operators do not depend on these lists. ONNX's inference requires that the lists and
tensors of a ``TreeEnsemble`` have the same length, so tensors are shortened together with the lists. A message with
millions of numbers, and the graph read from it again, would take seconds and gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

MOST_ELEMENTS = 1024
"""The most elements of a list that is kept."""
_ML_DOMAIN = "ai.onnx.ml"
_LEARNED: Mapping[tuple[str, str], tuple[str, ...]] = {
    (_ML_DOMAIN, "TreeEnsembleClassifier"): ("nodes_", "class_"),
    (_ML_DOMAIN, "TreeEnsembleRegressor"): ("nodes_", "target_"),
    (_ML_DOMAIN, "TreeEnsemble"): ("nodes_", "leaf_", "tree_roots"),
    (_ML_DOMAIN, "SVMClassifier"): ("coefficients", "support_vectors"),
    (_ML_DOMAIN, "SVMRegressor"): ("coefficients", "support_vectors"),
    (_ML_DOMAIN, "LinearClassifier"): ("coefficients",),
    (_ML_DOMAIN, "LinearRegressor"): ("coefficients",),
    ("", "TfIdfVectorizer"): ("pool_", "weights"),  # ngram_indexes tells the number of columns
}
"""Prefixes of the names of learned lists, by an operator's domain and name."""
_LISTS = (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS)

LongLists = Mapping[tuple[tuple[str | None, ...], str], ir.Attr]
"""Attributes by the names of their node's outputs and their own name."""


def leave_out_long_lists(graph_model: ir.Model) -> LongLists:
    """Shortens every long list of learned numbers to its first element, in place.

    Args:
        graph_model: A clone of a model: attributes are replaced, so those shared with the original do not change.

    Returns:
        The full lists, for :func:`put_back`.
    """
    found: dict[tuple[tuple[str | None, ...], str], ir.Attr] = {}
    for node in graph_model.graph.all_nodes():
        for attribute in _long_lists(node):
            found[_made_by(node), attribute.name] = attribute
            node.attributes.add(_shortened(attribute))
    return found


def take_long_lists(proto: onnx.ModelProto) -> LongLists:
    """Shortens every long list of learned numbers in a message's main graph to its first element, in place.

    Returns:
        The full lists. Equal numbers and texts of a list are one object, so a list of millions with a few thousand
        distinct ones takes eight bytes per element instead of forty.
    """
    found: dict[tuple[tuple[str | None, ...], str], ir.Attr] = {}
    for node in proto.graph.node:
        learned = _learned(node.domain, node.op_type)
        for attribute in node.attribute if learned else ():
            kind = ir.AttributeType(attribute.type)
            if kind not in _LISTS or attribute.ref_attr_name or not attribute.name.startswith(learned):
                continue
            repeated = getattr(attribute, kind.name.lower())
            if len(repeated) > MOST_ELEMENTS:
                elements = _shared([text.decode() for text in repeated] if kind.name == "STRINGS" else list(repeated))
                found[tuple(node.output), attribute.name] = ir.Attr(
                    attribute.name, kind, elements, doc_string=attribute.doc_string or None
                )
                del repeated[1:]
    return found


def _shared(elements: list[Any]) -> tuple[Any, ...]:
    """The elements, equal ones as one object; zeros of both signs stay apart."""
    first: dict[Any, Any] = {}
    if elements and isinstance(elements[0], float):
        bits = np.array(elements, np.float32).view(np.int32).tolist()
        return tuple(map(first.setdefault, bits, elements))
    return tuple(map(first.setdefault, elements, elements))


def light_message(node: ir.Node) -> tuple[onnx.NodeProto, Mapping[str, ir.Attr]]:
    """The node as a message with its long lists shortened, and the lists by name."""
    lists = {attribute.name: attribute for attribute in _long_lists(node)}
    if not lists:
        return ir.to_proto(node), lists
    message = onnx.NodeProto(
        name=node.name or "",
        op_type=node.op_type,
        domain=node.domain,
        overload=node.overload,
        input=[value.name or "" if value is not None else "" for value in node.inputs],
        output=[value.name or "" for value in node.outputs],
        attribute=[
            ir.to_proto(_shortened(attribute) if attribute.name in lists else attribute)
            for attribute in node.attributes.values()
        ],
    )
    return message, lists


def put_back(graph_model: ir.Model, lists: LongLists) -> None:
    """Restores the lists of nodes, in place.

    Args:
        graph_model: The graph that the lists were taken from, possibly changed since; values keep their names.
        lists: The full lists.
    """
    if not lists:
        return
    for node in graph_model.graph.all_nodes():
        for name in list(node.attributes):
            kept = lists.get((_made_by(node), name))
            if kept is not None and _numbers(node.attributes[name]) == _numbers(_shortened(kept)):
                node.attributes.add(kept)


def _long_lists(node: ir.Node) -> list[ir.Attr]:
    learned = _learned(node.domain, node.op_type)
    return [
        attribute
        for attribute in (node.attributes.values() if learned else ())
        if attribute.name.startswith(learned) and not attribute.is_ref() and _length(attribute) > MOST_ELEMENTS
    ]


def _learned(domain: str, operator: str) -> tuple[str, ...]:
    """Prefixes of the names of an operator's learned lists; empty if it has none."""
    return _LEARNED.get(("" if domain == "ai.onnx" else domain, operator), ())


def _length(attribute: ir.Attr) -> int:
    if attribute.type is ir.AttributeType.TENSOR:
        return attribute.as_tensor().size
    return len(attribute.value) if attribute.type in _LISTS else 0


def _shortened(attribute: ir.Attr) -> ir.Attr:
    if attribute.type is ir.AttributeType.TENSOR:
        return ir.Attr(attribute.name, attribute.type, ir.Tensor(attribute.as_tensor().numpy()[:1]))
    return ir.Attr(attribute.name, attribute.type, attribute.value[:1])


def _numbers(attribute: ir.Attr) -> list[Any]:
    """Returns the elements of a list or a tensor, for comparison."""
    value = attribute.as_tensor().numpy() if attribute.type is ir.AttributeType.TENSOR else attribute.value
    return list(value)


def _made_by(node: ir.Node) -> tuple[str | None, ...]:
    return tuple(value.name for value in node.outputs)
