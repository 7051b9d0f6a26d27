"""Writes recurrent nodes as scans over their steps, so that their weights are those of plain matrix products.

OpenVINO's kernels of LSTM and GRU compute in float, and read all weights as floats in every step. A matrix product
reads its weights as integers, a quarter of the bytes: a GRU of 400 states takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name
from edgekit.rewrites.recurrent.steps import SteppedLayer
from edgekit_quantize.graph.nodes import Names, constant, home, is_standard, remove_unread

INPUTS, STATES = 1, 2
"""The indices of the recurrent node's inputs that hold the weights for its inputs and for its states."""


@dataclass(frozen=True)
class StepProduct:
    """A matrix product of a recurrent node that was written out."""

    node: ir.Node
    """The MatMul."""
    weight: ir.Value
    """Its constant, ``[rows, columns]``: transposed weights of one direction of the recurrent node."""
    index: int
    """The index of the recurrent node's input that the weights come from, :data:`INPUTS` or :data:`STATES`."""
    direction: int
    """The direction of the node, counted from 0."""
    columns: slice
    """The outputs of the gates that it computes; a GRU that applies its reset gate first needs two products for all."""


def write_steps(node: ir.Node, opset: int, names: Names) -> list[StepProduct]:
    """Replace a recurrent node by a Scan for each direction, each behind a product with the node's inputs.

    Args:
        node: An LSTM, GRU or RNN with constant weights; its graph is changed in place.
        opset: The version of the standard operators that the model imports.
        names: The names that are taken in the model.

    Returns:
        The matrix products, direction by direction.
    """
    graph, build = home(node), NodeBuilder(opset, names.fresh(f"{node_name(node)}/steps"))
    made = SteppedLayer().replacement(node, build)
    for value in build.initializers:
        graph.register_initializer(value)
    given = [(old, new) for old, new in zip(node.outputs, made, strict=False) if old.name]
    outputs, results = [old for old, _ in given], [new for _, new in given]
    ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, outputs, results)
    remove_unread(reversed(build.nodes))
    return [*_products(build.nodes, names)]


def _products(nodes: list[ir.Node], names: Names) -> Iterator[StepProduct]:
    direction = 0
    for node in nodes:
        if is_standard(node, "MatMul"):
            yield _product(node, INPUTS, direction, 0)
        if is_standard(node, "Scan"):
            body = node.attributes["body"].as_graph()
            for value in body.inputs:
                value.name = names.fresh(f"{body.name}/{value.name}")
            done = 0
            for inner in body:
                if is_standard(inner, "MatMul"):
                    product = _product(inner, STATES, direction, done)
                    done = product.columns.stop
                    yield product
            direction += 1


def _product(node: ir.Node, index: int, direction: int, first: int) -> StepProduct:
    weight = node.inputs[1]
    matrix = constant(weight)
    if weight is None or matrix is None:
        raise ValueError(f"the weights of {node.name!r} are not constant")
    return StepProduct(node, weight, index, direction, slice(first, first + matrix.shape[1]))
