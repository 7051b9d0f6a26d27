"""Estimates how much one run of a model computes, from the graph and the shapes that an input leads to.

Measurements that are cut short if they would take long are limited by this estimate, not by a clock: the same model and
samples give the same results on any machine, however busy it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.execution.inner_values import InnerValues
from edgekit.graph.cost import node_macs
from edgekit.model import Model

OF_ELEMENT = 8
"""The work for each element that a node outputs, in multiplications: it is computed, written and read. Measured, like
:data:`OF_NODE`."""
OF_NODE = 100_000
"""The work for each node, in multiplications: the time that a runtime takes to call it."""
A_SECOND = 5e10
"""The work that ONNX Runtime does in a second on 2 threads of an x86 machine of 2024, within a factor of 2."""
ROUNDS = 100
"""The assumed number of iterations of a Loop or Scan if it is not known."""


def work_of(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> float:
    """The work of one run, in multiplications with their additions: these, elements (OF_ELEMENT) and nodes (OF_NODE).

    The body of a Loop or Scan counts once per iteration, if shapes of its outputs or inputs show how many there are;
    all branches of an If count.

    Args:
        model: The graph; it is not changed.
        feeds: An input.

    Raises:
        edgekit.execution.reference.NotRunnableError: ONNX Runtime cannot execute the model.
    """
    clone = model.clone()
    made = [value for node in clone.graph for value in node.outputs if value.name and _is_unknown(value)]
    shapes = InnerValues(Model(clone), dict(feeds)).shapes([str(value.name) for value in made])
    shapes |= {name: array.shape for name, array in feeds.items()}
    for value in [*made, *clone.graph.inputs]:
        if value.name in shapes:
            value.shape = ir.Shape(shapes[value.name])
    return sum(map(_of_node, clone.graph))


def _of_node(node: ir.Node) -> float:
    elements = sum(math.prod(_known(value)) for value in node.outputs)
    inner = sum(_of_node(each) for body in _bodies(node) for each in body)
    return OF_NODE + OF_ELEMENT * elements + (node_macs(node) or _weights(node)) + _rounds(node) * inner


def _bodies(node: ir.Node) -> Iterable[ir.Graph]:
    return (each.as_graph() for each in node.attributes.values() if each.type is ir.AttributeType.GRAPH)


def _rounds(node: ir.Node) -> int:
    """The number of iterations of a Loop or Scan; 1 for other nodes."""
    if node.op_type == "Scan":
        body = next(iter(_bodies(node)))
        states = len(body.inputs) - node.attributes["num_scan_inputs"].as_int()
        return max((_known(value)[0] for value in node.inputs[states:] if _known(value)), default=ROUNDS)
    if node.op_type == "Loop":
        carried = len(node.inputs) - 2
        return max((_known(value)[0] for value in node.outputs[carried:] if _known(value)), default=ROUNDS)
    return 1


def _weights(node: ir.Node) -> int:
    """The size of a node's largest constant input, as an estimate of its multiplications; 0 if these are known."""
    if node_macs(node) is not None:
        return 0
    return max((value.const_value.size for value in node.inputs if value and value.const_value), default=0)


def _known(value: ir.Value | None) -> tuple[int, ...]:
    if value is None or value.shape is None:
        return ()
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def _is_unknown(value: ir.Value) -> bool:
    """Whether a value is a tensor whose shape is not known."""
    return isinstance(value.type, ir.TensorType) and (value.shape is None or not value.shape.is_static())
