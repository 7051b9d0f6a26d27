"""Makes values of branches and loops outputs of the main graph, as sequences with one tensor per execution.

An empty sequence is passed in, and each execution appends a tensor: a branch that is not taken appends none, and shapes
may change between iterations. Scan takes no sequences (ONNX operator specification).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, every_graph, home, is_standard

CARRIES_FROM = 2
"""The index of Loop's first input that it carries from iteration to iteration."""


def holders(graph: ir.Graph) -> dict[ir.Graph, ir.Node]:
    """The If, Loop or other node that each inner graph belongs to."""
    return {
        attribute.as_graph(): node
        for node in graph.all_nodes()
        for attribute in node.attributes.values()
        if attribute.type is ir.AttributeType.GRAPH
    }


def reachable(graph: ir.Graph) -> set[ir.Graph]:
    """The graphs whose values can become outputs: the main graph, and those that are only inside If and Loop."""
    found = {graph}
    held_by = holders(graph)
    for inner in every_graph(graph):  # outer ones first
        node = held_by.get(inner)
        if node is not None and is_standard(node, "If", "Loop") and home(node) in found:
            found.add(inner)
    return found


def hand_out(graph: ir.Graph, names: Collection[str]) -> dict[str, ir.Value]:
    """Adds sequences of the named float values of branches and loops to the main graph.

    Args:
        graph: The main graph, changed in place.
        names: Names of values in graphs that are :func:`reachable`.

    Returns:
        The main graph's values that hold the sequences, by the names of the inner values.
    """
    if not names:
        return {}
    inner = [value for each in graph.subgraphs() for value in (*each.inputs, *(v for n in each for v in n.outputs))]
    wanted = [value for value in inner if value.name in names]
    threading = _Threading(graph)
    return {value.name or "": threading.out_of(value) for value in wanted}


class _Threading:
    """Passes sequences through the nodes that hold inner graphs."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = Names(graph)
        self._holders = holders(graph)

    def out_of(self, value: ir.Value) -> ir.Value:
        path = [home(value)]
        while path[0] is not self._graph:
            path.insert(0, home(self._holders[path[0]]))
        empty = self._node("SequenceEmpty", [], {"dtype": (value.dtype or ir.DataType.FLOAT).value})
        self._graph.insert_before(self._holders[path[1]], empty)
        return self._through(path[1:], empty.outputs[0], value)

    def _through(self, path: list[ir.Graph], sequence: ir.Value, value: ir.Value) -> ir.Value:
        """The sequence behind the node that holds the first graph of the path, with the tensors appended inside."""
        node = self._holders[path[0]]
        return (self._branch if node.op_type == "If" else self._loop)(node, path, sequence, value)

    def _inside(self, path: list[ir.Graph], sequence: ir.Value, value: ir.Value) -> ir.Value:
        if len(path) > 1:
            return self._through(path[1:], sequence, value)
        insert = self._node("SequenceInsert", [sequence, value])
        path[0].append(insert)
        return insert.outputs[0]

    def _branch(self, node: ir.Node, path: list[ir.Graph], sequence: ir.Value, value: ir.Value) -> ir.Value:
        for name in ("then_branch", "else_branch"):
            body = node.attributes[name].as_graph()
            longer = self._inside(path, sequence, value) if body is path[0] else self._same(body, sequence)
            body.outputs.append(longer)
        node.resize_outputs(len(node.outputs) + 1)
        return self._typed(node.outputs[-1], sequence)

    def _same(self, body: ir.Graph, sequence: ir.Value) -> ir.Value:
        """The unchanged sequence, as a result of the branch ``body``.

        A branch can only output values that it computes, and Identity takes no sequences in older operator sets, so a
        tensor is inserted and erased.
        """
        kind = ir.DataType.FLOAT if sequence.dtype is None else sequence.dtype
        nothing = add_initializer(body, self._names.fresh("nothing"), np.zeros((), kind.numpy()))
        insert = self._node("SequenceInsert", [sequence, nothing])
        last = add_initializer(body, self._names.fresh("last"), np.array(-1, np.int64))
        erase = self._node("SequenceErase", [insert.outputs[0], last])
        body.extend([insert, erase])
        return erase.outputs[0]

    def _loop(self, node: ir.Node, path: list[ir.Graph], sequence: ir.Value, value: ir.Value) -> ir.Value:
        body = path[0]
        carried = len(body.inputs) - CARRIES_FROM
        before = ir.Value(name=self._names.fresh("rounds"), type=sequence.type)
        body.inputs.append(before)
        body.outputs.insert(1 + carried, self._inside(path, before, value))
        inputs = [*node.inputs, *[None] * (CARRIES_FROM + carried - len(node.inputs)), sequence]
        old = list(node.outputs)
        new = ir.node(node.op_type, inputs, node.attributes, name=node.name, num_outputs=len(old) + 1)
        others = [*new.outputs[:carried], *new.outputs[carried + 1 :]]
        ir.convenience.replace_nodes_and_values(home(node), node, [node], [new], old, others)
        self._holders[body] = new
        return self._typed(new.outputs[carried], sequence)

    def _node(self, op_type: str, inputs: list[ir.Value], attributes: dict[str, int] | None = None) -> ir.Node:
        node = ir.node(op_type, inputs, attributes or {}, num_outputs=1)
        node.outputs[0].name = self._names.fresh("rounds")
        if inputs:
            self._typed(node.outputs[0], inputs[0])
        else:
            node.outputs[0].type = ir.SequenceType(ir.TensorType(ir.DataType((attributes or {})["dtype"])))
        return node

    def _typed(self, value: ir.Value, like: ir.Value) -> ir.Value:
        if not value.name:
            value.name = self._names.fresh("rounds")
        value.type = like.type
        return value
