"""Operators of TensorFlow that tf2onnx leaves in a file under their own names, in operators of the standard.

tf2onnx 1.17 knows none of ONNX for them, and writes the file all the same: ``Erfc`` is what Keras' exact GELU computes.
The meanings are those of ``tf.math``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableSequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

_CAST_LIKE_SINCE = 15


class _Steps:
    """The nodes that one node becomes."""

    def __init__(self, node: onnx.NodeProto, opset: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = node.name or node.output[0]
        self._opset = opset

    def step(self, operator: str, *inputs: str) -> str:
        """Adds a node.

        Returns:
            The name of its output.
        """
        name = f"{self._prefix}/{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name))
        return name

    def number(self, value: float, like: str) -> str:
        """Adds a constant of the type that ``like`` has, float32 before ``CastLike`` was there.

        Returns:
            The name of the constant.
        """
        name = f"{self._prefix}/number_{len(self.nodes)}"
        tensor = numpy_helper.from_array(np.array(value, np.float32))
        self.nodes.append(helper.make_node("Constant", [], [name], name, value=tensor))
        return self.step("CastLike", name, like) if self._opset >= _CAST_LIKE_SINCE else name


def _erfc(steps: _Steps, x: str) -> str:
    return steps.step("Sub", steps.number(1, x), steps.step("Erf", x))


def _expm1(steps: _Steps, x: str) -> str:
    """``tanh(x / 2) * (exp(x) + 1)``, in which nothing cancels near 0."""
    half = steps.step("Mul", x, steps.number(0.5, x))
    return steps.step("Mul", steps.step("Tanh", half), steps.step("Add", steps.step("Exp", x), steps.number(1, x)))


def _log1p(steps: _Steps, x: str) -> str:
    return steps.step("Log", steps.step("Add", x, steps.number(1, x)))


def _xdivy(steps: _Steps, x: str, y: str) -> str:
    return _zero_where_zero(steps, x, steps.step("Div", x, y))


def _xlogy(steps: _Steps, x: str, y: str) -> str:
    return _zero_where_zero(steps, x, steps.step("Mul", x, steps.step("Log", y)))


def _zero_where_zero(steps: _Steps, x: str, result: str) -> str:
    zero = steps.number(0, x)
    return steps.step("Where", steps.step("Equal", x, zero), zero, result)


_WRITTEN: Mapping[str, tuple[str, int, Callable[..., str]]] = {
    "Erfc": ("1 - Erf(x)", 1, _erfc),
    "Expm1": ("Tanh(x / 2) * (Exp(x) + 1)", 1, _expm1),
    "Log1p": ("Log(1 + x)", 1, _log1p),
    "Xdivy": ("x / y, 0 where x is 0", 2, _xdivy),
    "Xlogy": ("x * Log(y), 0 where x is 0", 2, _xlogy),
}
"""How each is told, the number of its inputs, and what writes it."""


def write_out_tensorflow_operators(proto: onnx.ModelProto) -> list[str]:
    """Replaces the nodes, in place, in branches, loops and functions too.

    Returns:
        What was replaced, in words.
    """
    opset = max((each.version for each in proto.opset_import if each.domain in STANDARD_DOMAINS), default=0)
    replaced: Counter[str] = Counter()
    for nodes in _lists_of_nodes(proto):
        if any(map(_is_left, nodes)):
            replaced.update(node.op_type for node in nodes if _is_left(node))
            written = [step for node in nodes for step in _written(node, opset)]
            del nodes[:]
            nodes.extend(written)
    return [
        f"{operator} is an operator of TensorFlow that ONNX does not have, and the exporter left it as it was: "
        f"{count} {'node is' if count == 1 else 'nodes are'} taken as {_WRITTEN[operator][0]}"
        for operator, count in sorted(replaced.items())
    ]


def _lists_of_nodes(proto: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    """The nodes of each function and each graph, those of graphs inside of others first."""
    inside = [graph for node in nodes_inside(written_nodes(proto)) for graph in graphs_of(node)]
    yield from (graph.node for graph in reversed(inside))
    yield from (function.node for function in proto.functions)
    yield proto.graph.node


def _is_left(node: onnx.NodeProto) -> bool:
    known = _WRITTEN.get(node.op_type)
    return known is not None and not node.domain and len(node.input) == known[1] and len(node.output) == 1


def _written(node: onnx.NodeProto, opset: int) -> list[onnx.NodeProto]:
    if not _is_left(node):
        return [node]
    steps = _Steps(node, opset)
    _WRITTEN[node.op_type][2](steps, *node.input)
    steps.nodes[-1].output[0] = node.output[0]
    return steps.nodes
