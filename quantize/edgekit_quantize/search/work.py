"""How much one run of a model computes, counted from the graph and the shapes that an input leads to.

Whatever is cut short where it would take long goes by this count, not by a clock: the same model and samples give the
same numbers on any machine, however busy it is.
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
"""What an element that a node gives counts beside a multiplication: it is written and read, and its node does
something with it. Measured, as :data:`OF_NODE` is."""
OF_NODE = 100_000
"""What a node counts that computes next to nothing: the time that a runtime takes to call it."""
A_SECOND = 5e10
"""What ONNX Runtime does in a second on 2 threads of an x86 machine of 2024, within a factor of 2."""
ROUNDS = 100
"""How often the body of a Loop runs where nothing tells."""


def work_of(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> float:
    """What one run counts, in multiplications with their additions: those, elements and nodes.

    The bodies of loops count as often as they run, where the shapes of what a Loop or a Scan gives tell; of branches
    all count.

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
    """How often the bodies of a node run."""
    if node.op_type == "Scan":
        body = next(iter(_bodies(node)))
        states = len(body.inputs) - node.attributes["num_scan_inputs"].as_int()
        return max((_known(value)[0] for value in node.inputs[states:] if _known(value)), default=ROUNDS)
    if node.op_type == "Loop":
        carried = len(node.inputs) - 2
        return max((_known(value)[0] for value in node.outputs[carried:] if _known(value)), default=ROUNDS)
    return 1


def _weights(node: ir.Node) -> int:
    """The size of a constant that a node multiplies by, where its shapes do not tell more."""
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
