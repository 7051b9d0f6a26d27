"""Sums with a depthwise convolution of 1×1 outputs, in networks of open sizes.

OpenVINO's CPU plugin (2026.4) fuses a depthwise convolution, the tensor that is added to it or subtracted from it, and
the elementwise operations behind. If a size is open and the output is 1×1, as in the last layers for a small picture,
the fused operation reads wrong numbers per channel for a batch of one. The plugin fuses nothing across a barrier
(:mod:`edgekit_openvino.exact.barriers`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edgekit_openvino.exact.barriers import barrier, has_several, may_be_one_place
from edgekit_openvino.loadable.matrix_chains import JOINS, UNARY

SUMS = frozenset({"Add", "Subtract"})
CHANNELS_OF_A_GROUP = 2
"""The axis of a grouped convolution's weights along which the input channels of a group lie."""


def keep_sum_at_one_place(addition: Any, constants: Collection[str]) -> None:
    """Puts a barrier between a sum that may be 1×1 and the depthwise convolution that it adds to, in place.

    Only sums that numbers per channel follow are changed.

    Args:
        addition: One of :data:`SUMS`.
        constants: The names of the operations that depend on constants alone.
    """
    operands = addition.input_values()
    if any(operand.get_node().get_name() in constants for operand in operands):
        return
    if not may_be_one_place(addition.get_output_partial_shape(0)) or not _meets_channels(addition, constants):
        return
    for place, operand in enumerate(operands):
        if _comes_from_depthwise(operand.get_node(), constants):
            addition.input(place).replace_source_output(barrier(operand).output(0))


def _comes_from_depthwise(node: Any, constants: Collection[str]) -> bool:
    """Whether a value comes from a depthwise convolution, directly or through operations with constants."""
    while node.get_type_name() in JOINS | UNARY:
        sources = [node.input_value(place).get_node() for place in range(node.get_input_size())]
        computed = [source for source in sources if source.get_name() not in constants]
        if len(computed) != 1:
            return False
        (node,) = computed
    if node.get_type_name() != "GroupConvolution":
        return False
    weights = node.get_input_partial_shape(1)
    return bool(weights.rank.is_dynamic or weights[CHANNELS_OF_A_GROUP] == 1)


def _meets_channels(operation: Any, constants: Collection[str]) -> bool:
    """Whether an elementwise operation behind has several constant numbers, such as one for each channel."""
    waiting, seen = [operation], set()
    while waiting:
        for port in waiting.pop().output(0).get_target_inputs():
            reader = port.get_node()
            if reader.get_type_name() not in JOINS | UNARY or reader.get_name() in seen:
                continue
            seen.add(reader.get_name())
            for value in reader.input_values():
                if value.get_node().get_name() in constants and has_several(value.get_partial_shape()):
                    return True
            waiting.append(reader)
    return False
