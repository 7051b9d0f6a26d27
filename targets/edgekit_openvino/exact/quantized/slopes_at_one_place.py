"""PRelu with one slope per channel after an integer convolution whose output is 1×1, in networks of open sizes.

OpenVINO's CPU plugin (2026.4) fuses a convolution and the PRelu after it. If the batch size is open and the output is
1×1, the fused operation reads wrong slopes for a batch of one, on processors with VNNI or AMX. The plugin fuses nothing
across a barrier (:mod:`edgekit_openvino.exact.barriers`).
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.barriers import barrier, has_several, may_be_one_place


def keep_slopes_at_one_place(activation: Any) -> None:
    """Puts a barrier ahead of a PRelu whose input may be 1×1 and has an open size, in place; names stay.

    Args:
        activation: A ``PRelu`` of a quantized network.
    """
    shape, slopes = activation.get_input_partial_shape(0), activation.get_input_partial_shape(1)
    if has_several(slopes) and may_be_one_place(shape):
        activation.input(0).replace_source_output(barrier(activation.input_value(0)).output(0))
