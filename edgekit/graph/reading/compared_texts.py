"""Comparisons of texts that were exported as comparisons of integers, which the texts are not.

Before opset 19, ONNX's Equal did not accept texts. tf2onnx writes ``tf.equal(city, "berlin")`` as Equal of two Casts to
integers. The Cast of the constant aborts every run, because ``berlin`` is no number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import onnx
from onnx.helper import make_node

from edgekit.graph.reading.node_order import read_names

ML_DOMAIN = "ai.onnx.ml"
_ML_VERSION = 3
"""The version of ``ai.onnx.ml`` to import for LabelEncoder with lists of keys and values."""
_LEAST_ML_VERSION = 2
_INTEGERS = {onnx.TensorProto.INT32, onnx.TensorProto.INT64}
_NUMBER = re.compile(rb"\s*[+-]?\d")
"""The start of a text that a runtime can convert to an integer."""


def look_compared_texts_up(proto: onnx.ModelProto) -> list[str]:
    """Replaces comparisons with a constant text as integers by a lookup, in place, if the text is no number.

    Equal of two Casts becomes a LabelEncoder whose only key is the constant. Without this change, such a model cannot
    run.

    Returns:
        What was changed, in words.
    """
    versions = {opset.domain: opset.version for opset in proto.opset_import}
    if versions.get(ML_DOMAIN, _ML_VERSION) < _LEAST_ML_VERSION:
        return []
    graph = proto.graph
    producers = {name: node for node in graph.node for name in node.output}
    changes: list[str] = []
    casts: set[str] = set()
    for node in list(graph.node):
        pair = _compared(node, producers, graph)
        if pair is None:
            continue
        read, text = pair
        casts |= set(node.input)
        place = list(graph.node).index(node)
        found = f"{node.output[0]}/found"
        encoder = make_node(
            "LabelEncoder",
            [read],
            [found],
            f"{node.name}/look_up",
            domain=ML_DOMAIN,
            keys_strings=[text],
            values_int64s=[1],
            default_int64=0,
        )
        graph.node.insert(place, encoder)
        node.CopyFrom(make_node("Cast", [found], [node.output[0]], node.name, to=onnx.TensorProto.BOOL))
        changes.append(
            f"node {node.name!r} compares texts as integers, but {text.decode(errors='replace')!r} is not an "
            f"integer: it now compares {read!r} with the text itself"
        )
    if changes and ML_DOMAIN not in versions:
        proto.opset_import.append(onnx.helper.make_opsetid(ML_DOMAIN, _ML_VERSION))
    _drop_unread(graph, casts)
    return changes


def _compared(
    node: onnx.NodeProto, producers: Mapping[str, onnx.NodeProto], graph: onnx.GraphProto
) -> tuple[str, bytes] | None:
    """Returns the name of a value that an Equal compares with a non-numeric text, and the text, or None."""
    if node.domain or node.op_type != "Equal":
        return None
    casts = [producers.get(name) for name in node.input]
    if any(cast is None or not _makes_integers(cast) for cast in casts):
        return None
    sources = [cast.input[0] for cast in casts if cast is not None]
    texts = [_only_text(name, producers, graph) for name in sources]
    for read, text, other in ((sources[0], texts[1], texts[0]), (sources[1], texts[0], texts[1])):
        if text is not None and other is None and not _NUMBER.match(text):
            return read, text
    return None


def _makes_integers(node: onnx.NodeProto) -> bool:
    is_cast = node.op_type == "Cast" and not node.domain
    return is_cast and any(attribute.name == "to" and attribute.i in _INTEGERS for attribute in node.attribute)


def _only_text(name: str, producers: Mapping[str, onnx.NodeProto], graph: onnx.GraphProto) -> bytes | None:
    """Returns the text of a constant that holds exactly one text, or None."""
    tensor = next((each for each in graph.initializer if each.name == name), None)
    node = producers.get(name)
    if node is not None and node.op_type == "Constant" and not node.domain:
        tensor = next((each.t for each in node.attribute if each.name == "value"), None)
    if tensor is None or tensor.data_type != onnx.TensorProto.STRING or list(tensor.dims) not in ([], [1]):
        return None
    return tensor.string_data[0] if len(tensor.string_data) == 1 else None


def _drop_unread(graph: onnx.GraphProto, nodes: Collection[str]) -> None:
    """Removes nodes with these outputs if nothing reads them, because a runtime would execute them."""
    read = {name for node in graph.node for name in read_names(node)} | {value.name for value in graph.output}
    for node in list(graph.node):
        if node.output and node.output[0] in nodes and node.output[0] not in read:
            graph.node.remove(node)
