"""Integers that are written out as texts to be looked up in a list are looked up as integers.

Azure's AutoML codes categories so: ``Cast`` makes the text "3" of the integer 3, and a LabelEncoder its place among the
categories. Runtimes of devices mostly have no texts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.number_lookup import looked_up
from edgekit.graph.shapes import infer_shapes
from edgekit.graph.word_lists import ML_DOMAIN, table_of
from edgekit.model import Model, node_name

_LOOKUPS = {("CategoryMapper", ML_DOMAIN), ("LabelEncoder", ML_DOMAIN)}
_INTEGERS = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8}


def with_integers_looked_up(model: Model) -> Model:
    """The model with integers in place of their texts where these are only looked up; itself where there are none.

    A list's texts that no integer is written as, such as "03" or "a", are never found. The given model is not changed.
    """
    if not any(_written_out(node) for node in model.graph):
        return model
    copy = infer_shapes(model, strict=False).graph_model.clone()
    graph = copy.graph
    for node, integers in list(_lookups(graph)):
        table = table_of(node)
        if table is None or table[1].dtype == np.object_:
            continue
        texts, values, other = table
        places = [place for place, text in enumerate(texts) if _is_integer(text)]
        if not places:
            continue
        keys = np.array([int(texts[place]) for place in places], np.int64)
        build = NodeBuilder(model.opset, node_name(node))
        found = looked_up(build, build.cast(integers, ir.DataType.INT64), keys, values[places], other)
        found.type, found.shape = node.outputs[0].type, node.outputs[0].shape
        for constant in build.initializers:
            graph.register_initializer(constant)
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [found])
    return model.with_graph(copy)


def _written_out(node: ir.Node) -> ir.Value | None:
    """What a node looks up that a Cast makes texts of; None where it does something else."""
    if (node.op_type, node.domain) not in _LOOKUPS or node.inputs[0] is None:
        return None
    cast = node.inputs[0].producer()
    is_text = cast is not None and cast.op_type == "Cast" and cast.attributes.get_int("to", 0) == ir.DataType.STRING
    return cast.inputs[0] if cast is not None and is_text and not cast.domain else None


def _lookups(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Value]]:
    """The nodes that look integers up, with the integers."""
    for node in graph:
        value = _written_out(node)
        if value is not None and value.dtype in _INTEGERS and value.shape is not None:
            yield node, value


def _is_integer(text: str) -> bool:
    """Whether an int64 is written so."""
    try:
        return str(np.int64(text)) == text
    except (OverflowError, ValueError):
        return False
