"""Batches of open size that are merged with their channels: OpenVINO would lose which number is for which channel.

Its low-precision transformations (2026.4) move what channels are multiplied and added with behind a ``Reshape`` of a
quantized network, and repeat it along another axis where a batch of open size is merged with the channels. Where there
is one channel, they may divide by zero over numbers along another axis, as those added to one token ahead of an
attention's heads: the process ends. They leave what stands behind a choice where it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.barriers import ARITHMETIC, ROUNDING, barrier, has_several

CHANNELS = 1
PER_CHANNEL = ARITHMETIC | {ROUNDING}
CONVOLUTIONS = frozenset({"Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData"})
"""Whose weights may be quantized with a scale for each channel."""
MOVES_CHANNELS = frozenset({"MatMul", "Reshape", "Transpose"})


def keep_channels_apart(network: Any, constants: Collection[str]) -> None:
    """Puts a choice ahead of where a batch of open size is merged with channels, or the one channel parted, in place.

    Args:
        network: An ``openvino.Model`` that is quantized.
        constants: The names of the operations that depend on constants alone.
    """
    for operation in network.get_ordered_ops():
        if operation.get_type_name() != "Reshape":
            continue
        is_merged = _merges_batch(operation) and has_channels(operation, constants)
        if is_merged or (_has_one_channel(operation) and follows_several(operation, constants)):
            operation.input(0).replace_source_output(barrier(operation.input_value(0)).output(0))


def _merges_batch(reshape: Any) -> bool:
    """Whether the first axis has an open size, and the Reshape may merge it with others or split it."""
    before, behind = reshape.get_input_partial_shape(0), reshape.get_output_partial_shape(0)
    if before.rank.is_dynamic or len(before) <= CHANNELS or before[0].is_static:
        return False
    if not reshape.get_input_element_type(0).is_real():
        return False
    sizes = [None if behind.rank.is_dynamic else list(behind)[1:], list(before)[1:]]
    if any(each is None or any(size.is_dynamic for size in each) for each in sizes):
        return True
    first, second = (int(np.prod([size.get_length() for size in each or ()])) for each in sizes)
    return first != second


def _has_one_channel(reshape: Any) -> bool:
    shape = reshape.get_input_partial_shape(0)
    if shape.rank.is_dynamic or len(shape) <= CHANNELS or not reshape.get_input_element_type(0).is_real():
        return False
    return bool(shape[CHANNELS].is_static and shape[CHANNELS].get_length() == 1)


def follows_several(operation: Any, constants: Collection[str]) -> bool:
    """Whether it reads what was computed with several constant numbers at once."""
    node = operation.input_value(0).get_node()
    while node.get_type_name() in ARITHMETIC:
        sources = [port.get_source_output() for port in node.inputs()]
        if any(
            has_several(source.get_partial_shape()) for source in sources if source.get_node().get_name() in constants
        ):
            return True
        others = [source.get_node() for source in sources if source.get_node().get_name() not in constants]
        if len(others) != 1:
            return False
        (node,) = others
    return False


def has_channels(operation: Any, constants: Collection[str]) -> bool:
    """Whether an operation's input was computed with numbers for each channel that still lie along the same axis."""
    waiting, seen = [operation.input_value(0).get_node()], set()
    while waiting:
        each = waiting.pop()
        kind = each.get_type_name()
        if each.get_name() in seen:
            continue
        seen.add(each.get_name())
        if kind in CONVOLUTIONS:
            return True
        sources = [port.get_source_output() for port in each.inputs()]
        if kind in PER_CHANNEL and any(
            source.get_node().get_name() in constants and _stands_along_channels(source, each) for source in sources
        ):
            return True
        if kind not in MOVES_CHANNELS:
            waiting.extend(source.get_node() for source in sources)
    return False


def _stands_along_channels(constant: Any, operation: Any) -> bool:
    shape, rank = constant.get_partial_shape(), operation.get_output_partial_shape(0).rank
    if shape.rank.is_dynamic or rank.is_dynamic:
        return True
    place = CHANNELS + len(shape) - rank.get_length()
    return bool(0 <= place < len(shape) and shape[place] != 1)
