"""Operators that look texts up in a list that they contain: their words, and their form when words are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.features.vocabularies import as_text
from edgekit.graph.building import NodeBuilder
from edgekit.graph.words.label_tables import default, entries
from edgekit.model import node_name

ML_DOMAIN = "ai.onnx.ml"
_ONE_HOT = ("OneHotEncoder", ML_DOMAIN)
_NGRAMS = ("TfIdfVectorizer", "")
_TABLES = {("CategoryMapper", ML_DOMAIN), ("LabelEncoder", ML_DOMAIN)}


def words_of(node: ir.Node) -> list[str] | None:
    """Returns the words that a node looks up, and those that it returns for them.

    Returns:
        The words, or None if the node is no such operator, or does something else with texts as well.
    """
    operator = (node.op_type, node.domain)
    if operator in _TABLES:
        table = table_of(node)
        if table is None:
            return None
        keys, values, other = table
        return [*keys, *map(as_text, values), as_text(other)] if values.dtype == np.object_ else keys
    if operator == _ONE_HOT:
        return list(node.attributes.get_strings("cats_strings", ())) or None
    if operator == _NGRAMS:
        return list(node.attributes.get_strings("pool_strings", ())) or None
    if operator == ("Equal", ""):
        constants = [texts for texts in map(constant_texts, node.inputs) if texts is not None]
        return [as_text(text) for text in constants[0].ravel()] if len(constants) == 1 else None
    return None


def gives_texts(node: ir.Node) -> bool:
    """Whether a node that looks texts up gives texts in their place."""
    table = table_of(node) if (node.op_type, node.domain) in _TABLES else None
    return table is not None and table[1].dtype == np.object_


def fails_at_others(node: ir.Node) -> bool:
    """Whether a node that looks texts up fails at a word that is not in its list."""
    return (node.op_type, node.domain) == _ONE_HOT and node.attributes.get_int("zeros", 1) == 0


def look_up_numbers(node: ir.Node, numbers: Mapping[str, int], graph: ir.Graph, opset: int) -> None:
    """Makes a node that looks texts up look up their numbers, in place.

    A lookup table becomes a Gather from the values in the order of the numbers. A node that failed for words that are
    not in its list returns zeros for them.

    Args:
        node: A node for which :func:`words_of` returns words.
        numbers: The number of each word; the greatest number plus 1 represents any other word.
        graph: The graph that contains the node.
        opset: The version of the standard operators.
    """
    attributes = node.attributes
    operator = (node.op_type, node.domain)
    if operator == _ONE_HOT:
        _list_numbers(node, "cats_strings", "cats_int64s", numbers)
        attributes.add(ir.AttrInt64("zeros", 1))
    elif operator == _NGRAMS:
        _list_numbers(node, "pool_strings", "pool_int64s", numbers)
    elif operator in _TABLES:
        build = NodeBuilder(opset, node_name(node))
        values = _values_by_number(node, numbers)
        gathered = build("Gather", values, node.inputs[0], axis=0)
        for constant in build.initializers:
            graph.register_initializer(constant)
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [gathered])
        gathered.type = ir.TensorType(ir.DataType.from_numpy(values.dtype))
    else:
        for position, value in enumerate(node.inputs):
            texts = constant_texts(value)
            if texts is not None:
                store_numbers(node, position, texts, numbers, graph)


def store_numbers(node: ir.Node, position: int, texts: np.ndarray, numbers: Mapping[str, int], graph: ir.Graph) -> None:
    """Replaces constant texts at an input of a node by their numbers."""
    build = NodeBuilder(0, f"{node_name(node)}/words_{position}")
    stored = np.array([numbers[as_text(text)] for text in texts.ravel()], np.int64).reshape(texts.shape)
    node.replace_input_with(position, build.constant(stored))
    for value in build.initializers:
        graph.register_initializer(value)


def constant_texts(value: ir.Value | None) -> np.ndarray | None:
    """Returns the texts of a constant, or None if the value is no constant or has numbers."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return np.array(tensor.numpy()) if tensor is not None and tensor.dtype == ir.DataType.STRING else None


def _list_numbers(node: ir.Node, texts: str, ints: str, numbers: Mapping[str, int]) -> None:
    words: Sequence[str] = node.attributes.get_strings(texts)
    del node.attributes[texts]
    node.attributes.add(ir.AttrInt64s(ints, [numbers[word] for word in words]))


def _values_by_number(node: ir.Node, numbers: Mapping[str, int]) -> np.ndarray:
    table = table_of(node)
    assert table is not None
    keys, values, other = table
    if values.dtype == np.object_:
        values, other = np.array([numbers[as_text(text)] for text in values], np.int64), numbers[as_text(other)]
    found = np.full(max(numbers.values(), default=-1) + 2, other, values.dtype)
    found[[numbers[key] for key in keys]] = values
    return found


def table_of(node: ir.Node) -> tuple[list[str], np.ndarray, object] | None:
    """Returns the texts that a node looks for, each once, their values, and the value of any other text.

    None if the node holds no such table.
    """
    attributes = node.attributes
    if "classes_strings" in attributes:  # version 1 of LabelEncoder, whose values are indices
        keys, keeps_last = list(attributes.get_strings("classes_strings", ())), True
        values: np.ndarray = np.arange(len(keys), dtype=np.int64)
        other: object = attributes.get_int("default_int64", -1)
    elif node.op_type == "CategoryMapper":
        keys, keeps_last = list(attributes.get_strings("cats_strings", ())), True
        values = np.asarray(attributes.get_ints("cats_int64s", ()), np.int64)
        other = attributes.get_int("default_int64", -1)
    else:
        given, found = entries(node, "keys"), entries(node, "values")
        if given is None or found is None or given.dtype != np.object_:
            return None
        keys, values, keeps_last = list(given), found, False
        other = default(node, values)
    if len(keys) != len(values):
        return None
    order = range(len(keys)) if keeps_last else reversed(range(len(keys)))
    place = {keys[number]: number for number in order}
    chosen = sorted(place.values())
    return [keys[number] for number in chosen], values[chosen], other
