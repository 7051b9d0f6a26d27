"""Operators that move, choose or leave out elements, and others, that OpenVINO converts into something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input, has_input
from edgekit.operators.departures import Departure, static_sizes
from edgekit.rewrites.arithmetic import MASK_KEEPS
from edgekit.rewrites.control_flow import may_compute_both
from edgekit_openvino.misread.conditions import is_set, mode_is, rank_of

PADS_ARE_INPUTS = 11
"""Since this opset Pad takes what it pads with as an input."""
LAST_PART_MAY_BE_SMALLER = 18
"""Since this opset Split gives a number of parts that need not be equal."""
AXIS_IS_AN_INPUT = 20
"""Since this opset DFT takes its axis as an input, not as an attribute."""


def _may_be_infinite(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    return value is None or value.dtype is None or value.dtype.is_floating_point()


def _pads_with_a_computed_number(node: ir.Node, opset: int) -> bool:
    is_constant = node.attributes.get_string("mode", "constant") == "constant"
    return opset >= PADS_ARE_INPUTS and is_constant and has_input(node, 2) and constant_input(node, 2) is None


def _gathers_nothing(node: ir.Node, _: int) -> bool:
    indices = constant_input(node, 1)
    return indices is not None and not indices.size


def _gathers_of_a_part(node: ir.Node, _: int) -> bool:
    """Whether indices may be fewer than the data along an axis other than ``axis``: open sizes that are not the same.

    Names of sizes that the model's inputs do not have come from shape inference, and may mean the same size.
    """
    data, indices = ([] if value is None or value.shape is None else list(value.shape) for value in node.inputs[:2])
    if not data or len(data) != len(indices):
        return False
    given = {size for value in (node.graph.inputs if node.graph else ()) for size in value.shape or ()}
    axis = node.attributes.get_int("axis", 0) % len(data)
    for place, (size, asked) in enumerate(zip(data, indices, strict=True)):
        is_known = [isinstance(each, int) for each in (size, asked)]
        if place != axis and size != asked and not all(is_known) and (any(is_known) or {size, asked} <= given):
            return True
    return False


def _transforms_elsewhere(node: ir.Node, opset: int) -> bool:
    if opset < AXIS_IS_AN_INPUT:
        return False
    value = node.inputs[0]
    axis, rank = (constant_input(node, 2) if has_input(node, 2) else np.array(-2)), rank_of(value)
    return axis is None or rank is None or int(axis.item()) % rank != 1


def _splits_an_open_size(node: ir.Node, opset: int) -> bool:
    """Whether an open size is split in parts of which the last may be smaller."""
    x = node.inputs[0]
    if opset < LAST_PART_MAY_BE_SMALLER or has_input(node, 1):
        return False
    return x is None or x.shape is None or not isinstance(x.shape[node.attributes.get_int("axis", 0)], int)


def _gives_a_mask(node: ir.Node, opset: int) -> bool:
    """Whether the mask of a dropout is read in an earlier version of Dropout, where the mask is zero."""
    read = len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output())
    return opset < MASK_KEEPS and bool(read)


def _gives_open_sizes_to_nodes(node: ir.Node, _: int) -> bool:
    """Whether a branch that may be computed together with the other gives nodes a tensor whose size is open.

    The tensor shares memory with others; where that grows, at the first inference of a larger size, some are lost.
    """
    read = [value for value in node.outputs if value.uses() and static_sizes(value) is None]
    return bool(read) and may_compute_both(node)


def _takes_no_step(node: ir.Node, _: int) -> bool:
    steps, condition = constant_input(node, 0), constant_input(node, 1)
    return (steps is not None and steps.item() <= 0) or (condition is not None and not condition.item())


def _collects_tensors_of_several_sizes(node: ir.Node, _: int) -> bool:
    """Whether a loop adds tensors to a sequence whose sizes may differ from turn to turn.

    OpenVINO 2026.4 keeps them as parts of one tensor, each of the size of the last one.
    """
    given = node.graph.inputs if isinstance(node.graph, ir.Graph) else ()
    kept = {dim.value for value in given for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)} - {None}
    for result in node.attributes["body"].as_graph().outputs[1:]:
        maker = result.producer()
        if maker is None or maker.op_type != "SequenceInsert":
            continue
        added = maker.inputs[1]
        shape = None if added is None else added.shape
        if shape is None or not all(isinstance(dim, int) or dim.value in kept for dim in shape):
            return True
    return False


def _changes_a_sequence_otherwise(node: ir.Node, _: int) -> bool:
    """Whether a turn of a loop does more with a sequence that it carries along than to add one tensor.

    Of two tensors that a turn adds, OpenVINO 2026.4 keeps one.
    """
    body = node.attributes["body"].as_graph()
    for entry, result in zip(body.inputs[2:], body.outputs[1:], strict=False):
        maker = result.producer()
        is_added_to = maker is not None and maker.op_type == "SequenceInsert"
        if maker is None or not (is_added_to or isinstance(entry.type, ir.SequenceType)):
            continue
        if maker.op_type not in ("Identity", "SequenceInsert") or maker.inputs[0] is not entry:
            return True
    return False


def _keeps_the_upper_part_by_another_number(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("upper", 1) not in (0, 1)


def _slices_along_computed_axes(node: ir.Node, _: int) -> bool:
    return has_input(node, 3) and constant_input(node, 3) is None


MISREADINGS = (
    Departure(("DFT",), _transforms_elsewhere, "it always transforms axis 1"),
    Departure(("DFT",), is_set("onesided"), "it gives the one-sided transform another shape"),
    Departure(("Dropout",), _gives_a_mask, "it gives a mask of ones, where opsets before 12 give zeros"),
    Departure(("If",), _gives_open_sizes_to_nodes, "it loses values behind the If when an open size grows"),
    Departure(("Gather",), _gathers_nothing, "it ends the process where there are no indices"),
    Departure(
        ("GatherElements",),
        _gathers_of_a_part,
        "it gathers wrong elements if an open size of the data is larger than that of the indices",
    ),
    Departure(
        ("Loop",),
        _collects_tensors_of_several_sizes,
        "it gives all tensors that a loop adds to a sequence the size of the last one",
    ),
    Departure(
        ("Loop",),
        _changes_a_sequence_otherwise,
        "it keeps only one of the tensors that an iteration adds to a sequence",
    ),
    Departure(("Loop",), _takes_no_step, "it gives the sizes of one iteration for a loop that runs none"),
    Departure(("Pad",), _pads_with_a_computed_number, "it pads with zeros in place of a computed number"),
    Departure(("Shrink", "ThresholdedRelu"), _may_be_infinite, "it turns infinite numbers into NaN"),
    Departure(("Slice",), _slices_along_computed_axes, "it ends the process where the axes are computed"),
    Departure(("SpaceToDepth",), mode_is("CRD"), "it ignores the mode"),
    Departure(("Trilu",), _keeps_the_upper_part_by_another_number, "it keeps the lower part where upper is not 1"),
    Departure(("Split",), _splits_an_open_size, "it makes the first parts too small where a size is open"),
)
