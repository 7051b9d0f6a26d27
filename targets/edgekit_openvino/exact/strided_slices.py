"""Slices that step over elements of an open dimension from end to end, whose size OpenVINO takes for the dimension's.

Where begin and end are those that mean *all* (0 and the largest integer), and the dimension is at least 1 but has no
limit, as behind a convolution or a pool, OpenVINO 2026.4 finds the same limits before and after ``x[::2]``, and from
then on lets the sizes stand in for each other: what is repeated, reshaped or counted by one of them gets the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KIND = "Slice"
BEGIN, END, STEP = 1, 2, 3


def limit_strided_slices(operation: Any) -> None:
    """Gives begin and end, in place, half of the largest or smallest integer: more than any size, but a limit."""
    from openvino import opset13

    step = operation.input_value(STEP).get_node()
    if step.get_type_name() != "Constant" or not operation.get_output_partial_shape(0).is_dynamic:
        return
    skips = abs(np.asarray(step.data, np.int64)) > 1
    for place in (BEGIN, END) if skips.any() else ():
        given = operation.input_value(place).get_node()
        if given.get_type_name() != "Constant":
            continue
        numbers = np.asarray(given.data)
        limits = np.iinfo(numbers.dtype)
        halved = np.clip(numbers, limits.min // 2, limits.max // 2)
        limited = np.where(skips, halved, numbers).astype(numbers.dtype)
        if not np.array_equal(limited, numbers):
            operation.input(place).replace_source_output(opset13.constant(limited).output(0))
