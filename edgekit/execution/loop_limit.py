"""Ends endless loops: the steps of a loop are counted while ONNX Runtime executes it.

A loop whose condition stays true takes a few bytes, and executing it never ends. A time limit depends on what else the
machine does; a count of steps is the same on every machine. The body of each loop gets a lookup in a table by the
number of the step. The table has one entry for each step that is allowed, and a lookup beyond its end fails. In a loop
inside a loop the number is multiplied by that of the outer step, so that all steps together stay within the limit times
its logarithm.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.model import Model, bodies, node_name

MOST_STEPS = 1_000_000
"""Most steps of one loop; a second of work if the body is small."""
MOST_NODES = 5_000_000
"""Most nodes that all steps of one loop execute together, unless :data:`LEAST_STEPS` allows more."""
LEAST_STEPS = 10_000
"""Steps of one loop that are always allowed, however many nodes the body has."""

_MARK = "edgekit/steps"
_BEYOND = re.compile(rf"'{re.escape(_MARK)}\d+ (.*?)'.*?out of data bounds", re.DOTALL)


def most_steps(model: Model) -> int:
    """How many steps a loop of the model may take."""
    nodes = sum(1 for loop in _loops(model.graph) for body in bodies(loop) for _ in body)
    return max(LEAST_STEPS, min(MOST_STEPS, MOST_NODES // max(1, nodes)))


def with_limited_loops(model: Model) -> Model:
    """The model with loops that fail beyond :func:`most_steps`, or the model itself if it has no loops."""
    if not _loops(model.graph):
        return model
    graph_model = model.graph_model.clone()
    _Limiter(graph_model.graph, most_steps(model)).limit(graph_model.graph, None)
    return model.with_graph(graph_model)


def require_an_end(message: str, model: Model) -> None:
    """Raises an error about a loop if a message of ONNX Runtime shows that it exceeded its steps.

    Raises:
        InputError: A loop exceeded its steps.
    """
    match = _BEYOND.search(message)
    if match is not None:
        raise InputError(
            "a loop does not end",
            subject=f"node {match[1]!r} (Loop)",
            expected=f"{most_steps(model):,} steps at most",
            found="more, on inputs that EdgeKit draws or is given",
            hint="give the loop a number of steps, or a condition that becomes false; "
            "`--max-seconds 300` limits the time instead",
        )


def _loops(graph: ir.Graph) -> list[ir.Node]:
    return [node for node in graph.all_nodes() if _is_loop(node)]


def _is_loop(node: ir.Node) -> bool:
    return node.op_type == "Loop" and not node.domain


class _Limiter:
    """Puts lookups into loops.

    Args:
        graph: The main graph; it gets the table.
        steps: Entries of the table.
    """

    def __init__(self, graph: ir.Graph, steps: int) -> None:
        taken = {value.name for node in graph.all_nodes() for value in node.outputs}
        taken |= {name for each in (graph, *_all_bodies(graph)) for name in _given_names(each)}
        self._free = (f"{_MARK}{number}" for number in itertools.count() if f"{_MARK}{number}" not in taken)
        entries = ir.Tensor(np.zeros(steps, np.uint8), name=next(self._free))
        self._table = ir.Value(
            name=entries.name, type=ir.TensorType(entries.dtype), shape=entries.shape, const_value=entries
        )
        graph.register_initializer(self._table)

    def limit(self, graph: ir.Graph, outer: ir.Value | None) -> None:
        """Limits the loops of a graph.

        Args:
            graph: The main graph, or the body of a node.
            outer: The number that is looked up in the enclosing loop; None outside of loops.
        """
        for node in list(graph):
            for body in bodies(node):
                number = outer
                if _is_loop(node) and body.inputs:
                    number = body.inputs[0] if outer is None else self._times(outer, body.inputs[0], body)
                    self._add(body, "Gather", self._table, number, about=node_name(node))
                self.limit(body, number)

    def _times(self, outer: ir.Value, step: ir.Value, body: ir.Graph) -> ir.Value:
        """``(outer + 1) * step``, computed in the body."""
        one = self._add(body, "Constant", value=ir.tensor(np.array(1, np.int64)))
        return self._add(body, "Mul", self._add(body, "Add", outer, one), step)

    def _add(self, body: ir.Graph, op_type: str, *inputs: ir.Value, about: str = "", **attributes: Any) -> ir.Value:
        node = ir.node(op_type, inputs, attributes)
        node.outputs[0].name = next(self._free)
        node.name = f"{node.outputs[0].name} {about}"
        body.append(node)
        return node.outputs[0]


def _all_bodies(graph: ir.Graph) -> Iterator[ir.Graph]:
    return (body for node in graph.all_nodes() for body in bodies(node))


def _given_names(graph: ir.Graph) -> Iterator[str | None]:
    return (value.name for value in (*graph.inputs, *graph.initializers.values()))
