"""Reductions that drop an axis and are rounded to integers, with numbers for each position along another axis nearby.

OpenVINO's CPU plugin (2026.4) fuses the reduction, the rounding and arithmetic with such numbers, which may stand
before the reduction, between it and the rounding, after the rounding, or in a normalization. The fused operation
applies the numbers along the wrong axis: dropping an axis has renumbered the axes. The plugin moves a rounding across
a Concat to what enters it, so that a pooling by mean and maximum has the same fault.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edgekit_openvino.exact.barriers import ARITHMETIC, ROUNDING, barrier, has_several
from edgekit_openvino.exact.quantized.merged_batches import follows_several
from edgekit_openvino.exact.replacing import put_behind

NORMALIZATION = "BatchNormInference"
WIDENING = "Convert"
APPLIED = ARITHMETIC | {NORMALIZATION}
"""Operations with constants that the plugin fuses with the reduction."""
MOVES = frozenset({"Concat", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operations that the plugin moves a rounding across."""


def round_apart(reduction: Any, constants: Collection[str]) -> bool:
    """Puts a barrier between a reduction that drops axes and the rounding of its result; names stay.

    Args:
        reduction: A reduction in a quantized network.
        constants: The names of the operations that depend on constants alone.

    Returns:
        Whether it was changed.
    """
    is_real = bool(reduction.get_element_type().is_real())
    if reduction.get_attributes()["keep_dims"] or not is_real or not _is_rounded(reduction, constants):
        return False
    put_behind(reduction, barrier)
    return True


def _is_rounded(reduction: Any, constants: Collection[str]) -> bool:
    """Whether only arithmetic with constants, roundings and moves follow, with several numbers there or ahead of it."""
    waiting = [(reduction, follows_several(reduction, constants), False)]
    while waiting:
        each, meets_several, is_rounded = waiting.pop()
        for reader in (port.get_node() for port in each.output(0).get_target_inputs()):
            kind = reader.get_type_name()
            if kind in MOVES:
                waiting.append((reader, meets_several, is_rounded))
                continue
            numbers = [port.get_source_output() for port in reader.inputs()]
            numbers = [number for number in numbers if number.get_node().get_name() in constants]
            if kind != WIDENING and not (numbers and (kind == ROUNDING or kind in APPLIED)):
                continue
            several = meets_several or any(has_several(number.get_partial_shape()) for number in numbers)
            rounded = is_rounded or kind == ROUNDING
            if several and rounded:
                return True
            waiting.append((reader, several, rounded))
    return False
