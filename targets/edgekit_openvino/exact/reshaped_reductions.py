"""Reductions of columns that a reshape made rows with more axes: OpenVINO's CPU plugin gives them an axis too many.

A column [n, 1] that is reshaped to [1, 1, n] and summed along the last axis becomes [1, 1, 1] in place of [1, 1] (seen
in OpenVINO 2026.4.1). Ensembles of trees that are written as products and sums end like this.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.barriers import barrier

KINDS = frozenset({"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})


def keep_axes_of_rows(reduction: Any) -> None:
    """Puts a barrier between a reduction and a reshape that it would be moved across.

    Args:
        reduction: The operation: data and axes.
    """
    value = reduction.input_value(0)
    reshape = value.get_node()
    if reshape.get_type_name() != "Reshape" or not reduction.get_element_type().is_real():
        return
    before, after = reshape.get_input_partial_shape(0), reshape.get_output_partial_shape(0)
    if before.rank.is_dynamic or after.rank.is_dynamic or not 0 < len(before) < len(after):
        return
    if _is_one(before[-1]) and not _is_one(after[-1]):
        reduction.input(0).replace_source_output(barrier(value).output(0))


def _is_one(size: Any) -> bool:
    return bool(size.is_static and size.get_length() == 1)
