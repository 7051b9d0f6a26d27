"""SimplifiedLayerNormalization, which ONNX Runtime adds to the standard domain, in operators of the standard.

It is the root-mean-square normalization in language models of onnxruntime-genai and Olive. ONNX does not know the
operator, so its checker refuses the file, and its inference finds no shape behind the node. ONNX Runtime fuses the
nodes written here to the operator again (SimplifiedLayerNormFusion).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

_OPERATOR = "SimplifiedLayerNormalization"
_EPSILON = 1e-5
_AXES_ARE_AN_INPUT = 18
_CAST_LIKE_SINCE = 15


def write_out_simplified_norms(proto: onnx.ModelProto) -> bool:
    """Replaces the nodes, in place: ``x / sqrt(mean(x ** 2) + epsilon) * scale``, with the mean from ``axis`` on.

    The statistics are computed in float32, which is ``stash_type`` 1, the default; nodes with another ``stash_type``
    are not replaced. Neither are nodes with a non-negative ``axis``, because the rank is unknown.

    Returns:
        Whether any node was replaced.
    """
    opset = max((each.version for each in proto.opset_import if each.domain in STANDARD_DOMAINS), default=0)
    found = False
    for nodes, types in _places(proto):
        if any(node.op_type == _OPERATOR and not node.domain for node in nodes):
            written = [each for node in nodes for each in _written(node, types, opset)]
            found |= len(written) > len(nodes)
            del nodes[:]
            nodes.extend(written)
    return found


def _places(proto: onnx.ModelProto) -> Iterator[tuple[MutableSequence[onnx.NodeProto], Mapping[str, int]]]:
    """The nodes of each graph and function, and the types of the graph's initializers."""
    graphs = [proto.graph]
    for node in nodes_inside(written_nodes(proto)):
        graphs += graphs_of(node)
    for graph in graphs:
        yield graph.node, {tensor.name: tensor.data_type for tensor in graph.initializer}
    for function in proto.functions:
        yield function.node, {}


def _written(node: onnx.NodeProto, types: Mapping[str, int], opset: int) -> Iterator[onnx.NodeProto]:
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    axis = given.get("axis", -1)
    in_float = given.get("stash_type", TensorProto.FLOAT) == TensorProto.FLOAT
    if node.op_type != _OPERATOR or node.domain or axis >= 0 or not in_float:
        yield node
        return
    x, scale = node.input
    prefix = node.name or node.output[0]

    def made(op_type: str, *inputs: str, output: str = "", **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op_type, inputs, [output or f"{prefix}/{op_type}"], f"{prefix}/{op_type}", **attributes)

    def number(what: str, value: np.ndarray) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [f"{prefix}/{what}"], value=numpy_helper.from_array(value))

    yield (wide := made("Cast", x, to=TensorProto.FLOAT))
    yield (two := number("two", np.array(2, np.float32)))
    yield (squares := made("Pow", *wide.output, *two.output))
    if opset >= _AXES_ARE_AN_INPUT:
        yield (axes := number("axes", np.arange(axis, 0)))
        yield (energy := made("ReduceMean", *squares.output, *axes.output))
    else:
        yield (energy := made("ReduceMean", *squares.output, axes=list(range(axis, 0))))
    yield (epsilon := number("epsilon", np.array(given.get("epsilon", _EPSILON), np.float32)))
    yield (raised := made("Add", *energy.output, *epsilon.output))
    yield (length := made("Sqrt", *raised.output))
    if len(node.output) > 1 and node.output[1]:
        yield made("Reciprocal", *length.output, output=node.output[1])
    yield (normalized := made("Div", *wide.output, *length.output))
    if scale not in types and opset >= _CAST_LIKE_SINCE:
        yield (normalized := made("CastLike", *normalized.output, scale))
    elif types.get(scale, TensorProto.FLOAT) != TensorProto.FLOAT:
        yield (normalized := made("Cast", *normalized.output, output=f"{prefix}/typed", to=types[scale]))
    yield made("Mul", *normalized.output, scale, output=node.output[0])
