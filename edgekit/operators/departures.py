"""Kinds of nodes that a runtime accepts but does not compute as the ONNX standard defines; plugins list them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.graph.nodes import constant_input, has_input
from edgekit.model import Model, node_name, op_name

KEEPS_EQUAL_CHANNELS = frozenset({"Clip", "Identity", "LeakyRelu", "Relu", "Sigmoid", "Tanh"})
"""Operators that give equal channels where their first input has them."""


@dataclass(frozen=True)
class Departure:
    """A kind of node that a runtime gets wrong."""

    op_types: tuple[str, ...]
    """Names of operators in ``domain``."""
    applies: Callable[[ir.Node, int], bool]
    """Whether a node of such an operator is affected, given the node and the opset."""
    reason: str
    domain: str = ""

    def is_of(self, node: ir.Node) -> bool:
        """Whether a node is of one of the operators."""
        return node.domain == self.domain and node.op_type in self.op_types


def departing_nodes(model: Model, departures: Iterable[Departure], runtime: str) -> list[OpGap]:
    """Returns the nodes of the given kinds in graph order.

    Args:
        model: The model, with its shapes inferred as far as possible.
        departures: The kinds of nodes.
        runtime: The runtime's name, with which each reason starts.
    """
    kinds = tuple(departures)
    return [
        OpGap(op_type=op_name(node), node=node_name(node), reason=f"{runtime} {departure.reason}")
        for node in model.graph.all_nodes()
        for departure in kinds
        if departure.is_of(node) and departure.applies(node, model.opset)
    ]


def equal_channels(value: ir.Value | None) -> int:
    """Returns how many channels are equal because one convolution makes them with equal filters.

    Returns:
        The number of all channels, or 0 if they may differ.
    """
    producer = None if value is None else value.producer()
    while producer is not None and producer.domain == "" and producer.op_type in KEEPS_EQUAL_CHANNELS:
        source = producer.inputs[0]
        producer = None if source is None else source.producer()
    if producer is None or producer.domain or producer.op_type != "Conv":
        return 0
    rows = [_equal_rows(operand) for operand in producer.inputs[1:] if operand is not None]
    return rows[0] if rows and all(rows) and producer.attributes.get_int("group", 1) == 1 else 0


def _equal_rows(value: ir.Value) -> int:
    """Returns the number of rows of a constant along its first axis if they are equal, else 0."""
    producer = value.producer()
    if producer is not None and producer.domain == "" and producer.op_type == "ConstantOfShape":
        shape = constant_input(producer, 0)
        return 0 if shape is None or not shape.size else int(shape[0])
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or not tensor.size or not tensor.shape.rank():
        return 0
    rows = tensor.numpy()
    return len(rows) if np.array_equal(rows[0], rows[-1]) and (rows == rows[:1]).all() else 0


def static_sizes(value: ir.Value | None) -> np.ndarray | None:
    """The sizes of a value's axes; None where one is not known."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return np.array(value.shape.numpy())


def aligns_corners_by_broken_scales(node: ir.Node, *, if_unknown: bool) -> bool:
    """Whether a Resize aligns corners with scales that give fractional sizes, which affects aligned corners most.

    Args:
        node: The Resize.
        if_unknown: The answer if scales or sizes are unknown.
    """
    if node.attributes.get_string("coordinate_transformation_mode", "half_pixel") != "align_corners":
        return False
    if not has_input(node, 2):
        return False
    scales, sizes = constant_input(node, 2), static_sizes(node.inputs[0])
    if scales is not None and not scales.size:  # in opset 11, the scales are empty if sizes are given
        return False
    if scales is None or sizes is None:
        return if_unknown
    axes = node.attributes.get_ints("axes", ())
    sizes = sizes[list(axes)] if axes else sizes
    if scales.shape != sizes.shape:
        return if_unknown
    return not np.allclose(scales * sizes, np.rint(scales * sizes), rtol=0, atol=1e-6)
