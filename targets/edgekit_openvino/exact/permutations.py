"""Channels in another order: a Gather of all positions, or a Concat of three parts of a Split.

OpenVINO's optimizations (2026.4) move such an order into the weights of the convolutions and products behind it, and
into the constants on the way there, but permute these as the tensor is permuted, not the other way round: only an order
that is its own inverse, such as the reverse, comes out right. Slopes of PRelu on the way are not permuted at all, and
parts of several channels count as one, so that the network is not loaded. An order whose axis is counted from the end,
and parts whose sizes are listed, are left where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

GATHER, CONCAT, SPLIT = "Gather", "Concat", "Split"
KINDS = frozenset({GATHER, CONCAT})


def keep_order(operation: Any) -> None:
    """Writes a change of the order of channels in a form that OpenVINO does not move into weights, in place.

    Args:
        operation: A Gather or a Concat.
    """
    if operation.get_type_name() == GATHER:
        _count_axis_from_the_end(operation)
    else:
        _list_sizes_of_parts(operation)


def _count_axis_from_the_end(gather: Any) -> None:
    from openvino import opset13

    indices, axis = (gather.input_value(place).get_node() for place in (1, 2))
    shape = gather.get_input_partial_shape(0)
    if any(node.get_type_name() != "Constant" for node in (indices, axis)) or shape.rank.is_dynamic:
        return
    place, order = int(np.ravel(axis.get_data())[0]), np.ravel(indices.get_data())
    if place < 0 or len(order) == 1 or len(np.unique(order)) != len(order):
        return
    size = shape[place]
    if size.is_dynamic or size.get_length() == len(order):
        from_the_end = opset13.constant(np.array(place - shape.rank.get_length(), np.int64))
        gather.input(2).replace_source_output(from_the_end.output(0))


def _list_sizes_of_parts(concat: Any) -> None:
    from openvino import opset13

    parts = concat.input_values()
    split = parts[0].get_node()
    if split.get_type_name() != SPLIT or any(part.get_node().get_name() != split.get_name() for part in parts):
        return
    shape, axis = split.get_input_partial_shape(0), split.input_value(1).get_node()
    order = [part.get_index() for part in parts]
    if len(set(order)) != len(order) or axis.get_type_name() != "Constant" or shape.rank.is_dynamic:
        return
    size = shape[int(np.ravel(axis.get_data())[0])]
    if size.is_dynamic:
        return
    count = split.get_output_size()
    sizes = opset13.constant(np.full(count, size.get_length() // count, np.int64))
    listed = opset13.variadic_split(split.input_value(0), split.input_value(1), sizes)
    listed.set_friendly_name(split.get_friendly_name())
    for old, new in zip(split.outputs(), listed.outputs(), strict=True):
        hand_over(old, new)
