"""Average, L2 and maximum pooling, in one to three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgekit_coreml.runtime.kernels.onnx_op import run_onnx_op
from edgekit_coreml.runtime.kernels.windows import Padding, Windows, onnx_pads
from edgekit_coreml.runtime.program import Array
from edgekit_coreml.runtime.registry import Call, Ints, kernel


@kernel("max_pool")
def max_pool(
    call: Call,
    x: Array,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    ceil_mode: bool = False,
) -> Array:
    """Maximum of each window of ``x`` [n, C, *D]; padding counts as minus infinity."""
    windows = Windows.over(kernel_sizes, strides)
    padding = windows.padding(pad_type, pad, x.shape[2:])
    reach = _reach(windows, x.shape[2:], padding, ceil_mode and pad_type in ("valid", "custom"))
    return _pool(call, "MaxPool", x, windows, reach, -np.inf)


@kernel("avg_pool")
def avg_pool(
    call: Call,
    x: Array,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
) -> Array:
    """Mean of each window of ``x`` [n, C, *D].

    Padding counts as zeros unless ``exclude_padding_from_average``. What ``ceil_mode`` lets a window hang over beyond
    the padding is never counted, as in PyTorch.
    """
    windows = Windows.over(kernel_sizes, strides)
    padding = windows.padding(pad_type, pad, x.shape[2:])
    reach = _reach(windows, x.shape[2:], padding, ceil_mode and pad_type in ("valid", "custom"))
    mean = _pool(call, "AveragePool", x, windows, reach, 0.0, count_include_pad=1)
    counted = ((0, 0),) * len(padding) if exclude_padding_from_average else padding
    for axis, size in enumerate(kernel_sizes):
        counts = _counts(windows, axis, x.shape[2 + axis], reach[axis], counted[axis])
        if np.any(counts != size):
            along = (-1,) + (1,) * (len(kernel_sizes) - 1 - axis)
            mean *= (size / np.maximum(counts, 1)).astype(np.float32).reshape(along)
    return mean


@kernel("l2_pool")
def l2_pool(
    call: Call,
    x: Array,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    ceil_mode: bool = False,
) -> Array:
    """Square root of the sum of squares of each window of ``x`` [n, C, *D]; padding counts as zeros."""
    windows = Windows.over(kernel_sizes, strides)
    padding = windows.padding(pad_type, pad, x.shape[2:])
    reach = _reach(windows, x.shape[2:], padding, ceil_mode and pad_type in ("valid", "custom"))
    mean = _pool(call, "AveragePool", np.square(x), windows, reach, 0.0, count_include_pad=1)
    mean *= np.float32(math.prod(kernel_sizes))
    return np.sqrt(mean, out=mean)


def _reach(windows: Windows, spatial: Sequence[int], padding: Padding, ceil_mode: bool) -> Padding:
    """How far windows reach beyond the input: the padding and, with ``ceil_mode``, what the last window needs more.

    ``ceil_mode`` rounds the number of windows up, but leaves out a last window that would start beyond the input and
    the padding before it, if there is padding at all.
    """
    if not ceil_mode:
        return padding
    reach = []
    for size, (before, after), extent, stride in zip(spatial, padding, windows.extents, windows.strides, strict=True):
        count = -(-(size + before + after - extent) // stride) + 1
        if before + after > 0 and (count - 1) * stride >= size + before:
            count -= 1
        reach.append((before, max((count - 1) * stride + extent - size - before, 0)))
    return tuple(reach)


def _counts(windows: Windows, axis: int, size: int, reach: tuple[int, int], counted: tuple[int, int]) -> Array:
    """Elements of each window along an axis that lie in the input or the ``counted`` part of its surroundings."""
    extent, stride = windows.sizes[axis], windows.strides[axis]
    starts = np.arange((size + sum(reach) - extent) // stride + 1) * stride - reach[0]
    low, high = -counted[0], size + counted[1]
    counts: Array = np.minimum(starts + extent, high) - np.maximum(starts, low)
    return np.maximum(counts, 0)


def _pool(
    call: Call, op_type: str, x: Array, windows: Windows, reach: Padding, fill: float, **attributes: Any
) -> Array:
    """Pool over the input extended by ``reach``."""
    if any(max(ends) >= size for ends, size in zip(reach, windows.sizes, strict=True)):
        # ONNX Runtime refuses padding as large as the window.
        x = np.pad(x, ((0, 0), (0, 0), *reach), constant_values=fill)
        reach = ((0, 0),) * len(reach)
    return run_onnx_op(
        call,
        reach,
        op_type,
        {"x": x},
        work=x.size * math.prod(windows.sizes) / math.prod(windows.strides),
        shape=x.shape[:2] + windows.counts(x.shape[2:], reach),
        kernel_shape=windows.sizes,
        strides=windows.strides,
        pads=onnx_pads(reach),
        **attributes,
    )
