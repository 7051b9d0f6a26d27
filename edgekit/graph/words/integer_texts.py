"""Integers that are converted to texts only to be looked up in a list are looked up as integers.

Azure's AutoML encodes categories this way: ``Cast`` makes the text "3" of the integer 3, and a LabelEncoder turns it
into the category's index, or a TfIdfVectorizer into a column for each category. Most device runtimes do not support
texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.number_lookup import looked_up
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.lists import ML_DOMAIN, table_of
from edgekit.model import Model, node_name

MICROSOFT = "com.microsoft"
_TABLES = {("CategoryMapper", ML_DOMAIN), ("LabelEncoder", ML_DOMAIN)}
_NGRAMS = ("TfIdfVectorizer", "")
_LOOKUPS = {*_TABLES, _NGRAMS}
_INTEGERS = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8}
_OF_INTEGERS = frozenset("-0123456789")
"""The characters of integers written as texts."""


@dataclass(frozen=True)
class _WrittenOut:
    """Integers that a node looks up as texts."""

    integers: ir.Value
    movers: Sequence[ir.Node]
    """The nodes between the Cast and the lookup, in order: Flatten, and a Tokenizer that leaves integers whole."""


def with_integers_looked_up(model: Model) -> Model:
    """Returns the model with integers looked up in place of their texts, or the model itself if it has none.

    Texts in a list that are not the decimal form of an integer, such as "03" or "a", are never found. The given model
    is not changed.
    """
    if not any(_written_out(node) for node in model.graph):
        return model
    copy = infer_shapes(model, strict=False).graph_model.clone()
    graph = copy.graph
    for node, written in list(_lookups(graph)):
        build = NodeBuilder(model.opset, node_name(node))
        found = _by_ngrams(build, node, written) if node.op_type == _NGRAMS[0] else _by_table(build, node, written)
        if found is None:
            continue
        found.type, found.shape = node.outputs[0].type, node.outputs[0].shape
        for constant in build.initializers:
            graph.register_initializer(constant)
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [found])
    return model.with_graph(copy)


def _by_table(build: NodeBuilder, node: ir.Node, written: _WrittenOut) -> ir.Value | None:
    table = table_of(node)
    if table is None or table[1].dtype == np.object_ or written.movers:
        return None
    texts, values, other = table
    places = [place for place, text in enumerate(texts) if _is_integer(text)]
    if not places:
        return None
    keys = np.array([int(texts[place]) for place in places], np.int64)
    return looked_up(build, build.cast(written.integers, ir.DataType.INT64), keys, values[places], other)


def _by_ngrams(build: NodeBuilder, node: ir.Node, written: _WrittenOut) -> ir.Value | None:
    """Returns the columns of the integers if the vectorizer looks for single integers only, else None."""
    texts = node.attributes.get_strings("pool_strings", ())
    if not texts or not all(map(_is_integer, texts)) or node.attributes.get_int("max_gram_length", 0) != 1:
        return None
    assert written.integers.shape is not None
    x, rank = build.cast(written.integers, ir.DataType.INT64), written.integers.shape.rank()
    for mover in written.movers:
        if mover.op_type == "Flatten":
            x, rank = build("Flatten", x, axis=mover.attributes.get_int("axis", 1)), 2
        else:
            x, rank = build.unsqueeze(x, [rank]), rank + 1
    kept = {name: attribute.value for name, attribute in node.attributes.items() if name != "pool_strings"}
    return build("TfIdfVectorizer", x, **kept, pool_int64s=[int(text) for text in texts])


def _written_out(node: ir.Node) -> _WrittenOut | None:
    """Returns the integers that a node looks up as texts made by a Cast, or None for other nodes."""
    if (node.op_type, node.domain) not in _LOOKUPS or node.inputs[0] is None:
        return None
    movers: list[ir.Node] = []
    maker = node.inputs[0].producer()
    while maker is not None and maker.inputs[0] is not None and (_flattens(maker) or _leaves_integers_whole(maker)):
        movers.insert(0, maker)
        maker = maker.inputs[0].producer()
    is_text = maker is not None and maker.op_type == "Cast" and maker.attributes.get_int("to", 0) == ir.DataType.STRING
    if maker is None or not is_text or maker.domain or maker.inputs[0] is None:
        return None
    return _WrittenOut(maker.inputs[0], movers)


def _flattens(node: ir.Node) -> bool:
    return node.op_type == "Flatten" and not node.domain


def _leaves_integers_whole(node: ir.Node) -> bool:
    """Whether a tokenizer makes one token of an integer's text, in a new last dimension."""
    attributes = node.attributes
    separators = attributes.get_strings("separators", ())
    return (
        (node.op_type, node.domain) == ("Tokenizer", MICROSOFT)
        and not attributes.get_string("tokenexp", "")
        and attributes.get_int("mark", 0) == 0
        and attributes.get_int("mincharnum", 1) <= 1
        and all(set(separator) - _OF_INTEGERS for separator in separators)
    )


def _lookups(graph: ir.Graph) -> Iterator[tuple[ir.Node, _WrittenOut]]:
    """The nodes that look integers up, with the integers."""
    for node in graph:
        written = _written_out(node)
        if written is not None and written.integers.dtype in _INTEGERS and written.integers.shape is not None:
            yield node, written


def _is_integer(text: str) -> bool:
    """Whether a text is the decimal form of an int64."""
    try:
        return str(np.int64(text)) == text
    except (OverflowError, ValueError):
        return False
