"""Slopes a channel behind convolutions of integers that give each channel one number, in networks of open sizes.

OpenVINO's CPU plugin (2026.4) makes one operation of a convolution and the PRelu behind it. For a batch of one it takes
the slopes from elsewhere then where the size of the batch was open and the result is 1×1, on processors with VNNI or
AMX. It makes none of what stands behind a choice.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.quantized.barriers import barrier, has_several

FIRST_PLACE = 2
"""The first axis behind the batch and the channels."""


def keep_slopes_at_one_place(activation: Any) -> None:
    """Puts a choice ahead of a PRelu of an open size that may have one place, in place; names stay.

    Args:
        activation: The ``PRelu`` of a network that is quantized.
    """
    shape, slopes = activation.get_input_partial_shape(0), activation.get_input_partial_shape(1)
    if shape.is_static or not has_several(slopes):
        return
    if shape.rank.is_static and (
        len(shape) <= FIRST_PLACE
        or any(size.is_static and size.get_length() != 1 for size in list(shape)[FIRST_PLACE:])
    ):
        return
    activation.input(0).replace_source_output(barrier(activation.input_value(0)).output(0))
