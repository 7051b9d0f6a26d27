"""Reductions, and what divides by one, that OpenVINO converts into something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input, has_input
from edgekit.operators.departures import Departure, static_sizes
from edgekit.rewrites.ml.features import Normalizer
from edgekit_openvino.misread.conditions import always, rank_of

AXES_FORGOTTEN = range(13, 18)
"""Opsets in which two reductions have their axes as an attribute, and OpenVINO looks for an input."""
SEVERAL_AXES = range(11, 13)
"""Opsets in which Softmax is over all axes from its attribute ``axis`` on, and OpenVINO takes that axis alone."""


def _may_reduce_no_axis(node: ir.Node, _: int) -> bool:
    """Whether a reduction may have no axes and then reduces none, so that it only transforms each element."""
    axes = constant_input(node, 1) if has_input(node, 1) else np.zeros(0)
    return node.attributes.get_int("noop_with_empty_axes", 0) == 1 and (axes is None or not axes.size)


def _spans_several_axes(node: ir.Node, opset: int) -> bool:
    """Whether a softmax is over several axes: all from ``axis`` on, where that is not the last, as below opset 13."""
    axis, rank = node.attributes.get_int("axis", 1), rank_of(node.inputs[0])
    return opset in SEVERAL_AXES and axis != -1 and (rank is None or axis % rank != rank - 1)


def _reduces_nothing(node: ir.Node, _: int) -> bool:
    """Whether there is no element to reduce."""
    sizes = static_sizes(node.inputs[0])
    return sizes is not None and 0 in sizes


def _has_elements(node: ir.Node, _: int) -> bool:
    """Whether there are elements of a known type to reduce."""
    value = node.inputs[0]
    return value is not None and value.dtype is not None and not _reduces_nothing(node, _)


def _has_axes_that_it_forgets(node: ir.Node, opset: int) -> bool:
    return opset in AXES_FORGOTTEN and "axes" in node.attributes


def _divides_by_maximum(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("norm", "MAX") == "MAX"


MISREADINGS = (
    Departure((*Normalizer.op_types,), _divides_by_maximum, "it divides by the greatest magnitude", Normalizer.domain),
    Departure(("LpNormalization",), always, "it adds 1.2e-7 to the sum that it divides by"),
    Departure(("ReduceL1", "ReduceLogSum"), _has_axes_that_it_forgets, "it reduces all axes at opsets 13 to 17"),
    Departure(
        ("ReduceL1", "ReduceL2", "ReduceLogSum"),
        _may_reduce_no_axis,
        "without axes it returns the elements unchanged",
    ),
    Departure(("ReduceLogSumExp",), _has_elements, "its exponentials overflow, or vanish"),
    Departure(("ReduceMax",), _reduces_nothing, "for no elements it gives the least finite number, not minus infinity"),
    Departure(("Softmax",), _spans_several_axes, "it normalizes over one axis, not over all axes from there on"),
)
