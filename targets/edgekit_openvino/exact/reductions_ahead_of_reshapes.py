"""Reductions that drop axes ahead of a reshape, which OpenVINO takes for one that puts the axes back.

OpenVINO (2026.4.1) takes a Reshape behind a reduction away where the rank stays and the new shape has ones at the
places that the reduced axes had, without a look at its other sizes: a mean [3, 5] over the middle of [3, 4, 5] that
becomes the column [15, 1] stays [3, 5]. So do means of a batch of 1 that are transposed, as a Transpose that moves
axes of one element only is a Reshape as well.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.barriers import barrier
from edgekit_openvino.exact.reshaped_reductions import KINDS as OF_NUMBERS

KINDS = OF_NUMBERS | {"ReduceLogicalAnd", "ReduceLogicalOr"}
RESHAPES = ("Reshape", "Transpose")


def keep_reshapes(reduction: Any) -> None:
    """Puts a barrier between a reduction and the reshapes behind it that would be left out.

    The axes may yet become others, as OpenVINO also moves a Transpose ahead of a reduction behind it.

    Args:
        reduction: The operation: data and axes.
    """
    result = reduction.output(0)
    changed = [
        reader
        for reader in result.get_target_inputs()
        if reader.get_index() == 0 and reader.get_node().get_type_name() in RESHAPES and _adds_one(reader.get_node())
    ]
    if changed and not reduction.get_attributes()["keep_dims"]:
        hidden = _hidden(result)
        for reader in changed:
            reader.replace_source_output(hidden.output(0))


def _adds_one(reshape: Any) -> bool:
    """Whether the rank stays, and the new shape, another one, has an axis of one element."""
    before, after = reshape.get_input_partial_shape(0), reshape.get_output_partial_shape(0)
    if before.rank.is_dynamic or after.rank.is_dynamic or len(before) != len(after):
        return False
    has_one = any(size.is_static and size.get_length() == 1 for size in after)
    return has_one and not (before.is_static and before == after)


def _hidden(value: Any) -> Any:
    """The value behind an operation that OpenVINO neither removes nor moves a Reshape across."""
    from openvino import opset13

    kind = value.get_element_type()
    if kind.is_real():
        return barrier(value)
    return (opset13.logical_or if kind.get_type_name() == "boolean" else opset13.maximum)(value, value)
