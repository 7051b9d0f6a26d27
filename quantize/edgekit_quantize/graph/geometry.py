"""Where the kernel of a convolution meets its input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir


def integers(node: ir.Node, name: str, default: list[int]) -> list[int]:
    """An attribute of integers, or ``default`` if it is not set."""
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else default


def padding_of(
    node: ir.Node, size: Sequence[int], reach: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Zeros before and behind each spatial axis, by the Conv specification.

    Args:
        node: A Conv.
        size: The sizes of the spatial axes.
        reach: How far the kernel extends along each of them, dilation included.
        strides: The strides.
    """
    automatic = node.attributes.get("auto_pad")
    mode = automatic.as_string() if automatic is not None else "NOTSET"
    if mode == "NOTSET":
        pads = integers(node, "pads", [0] * (2 * len(size)))
        return list(zip(pads[: len(size)], pads[len(size) :], strict=True))
    if mode == "VALID":
        return [(0, 0)] * len(size)
    padding = []
    for length, window, stride in zip(size, reach, strides, strict=True):
        needed = max((-(-length // stride) - 1) * stride + window - length, 0)
        less, more = needed // 2, needed - needed // 2
        padding.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return padding


def meets(node: ir.Node, size: Sequence[int], kernel: Sequence[int]) -> list[np.ndarray]:
    """For each spatial axis, which elements of the kernel meet the input at each output position, and not padding.

    Args:
        node: A Conv.
        size: The sizes of the input's spatial axes.
        kernel: The kernel's sizes.

    Returns:
        Boolean ``[positions, kernel]`` for each axis.
    """
    strides, dilations = (integers(node, name, [1] * len(size)) for name in ("strides", "dilations"))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    found = []
    padding = padding_of(node, size, reach, strides)
    for length, pads, k, extent, stride, dilation in zip(size, padding, kernel, reach, strides, dilations, strict=True):
        outputs = (length + sum(pads) - extent) // stride + 1
        places = np.arange(outputs)[:, None] * stride + np.arange(k) * dilation - pads[0]
        found.append((places >= 0) & (places < length))
    return found
