"""Average, L2 and maximum pooling, in one to three spatial dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mlruntime.kernels.onnx_op import run_onnx_op
from edgekit_mlruntime.kernels.windows import Padding, Windows, onnx_pads
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


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
    geometry = _Geometry.of(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    return _pool(call, "MaxPool", x, geometry, -np.inf)


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

    Padding counts as zeros unless ``exclude_padding_from_average``. Elements beyond the padding, which a last window
    covers with ``ceil_mode``, are never counted, as in PyTorch.
    """
    geometry = _Geometry.of(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    mean = _pool(call, "AveragePool", x, geometry, 0.0, count_include_pad=1)
    for axis, size in enumerate(kernel_sizes):
        counts = geometry.counts(axis, padded=not exclude_padding_from_average)
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
    geometry = _Geometry.of(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    mean = _pool(call, "AveragePool", np.square(x), geometry, 0.0, count_include_pad=1)
    mean *= np.float32(math.prod(kernel_sizes))
    return np.sqrt(mean, out=mean)


@dataclass(frozen=True)
class _Geometry:
    """Position of the windows of a pooling operation over its input."""

    spatial: Ints
    windows: Windows
    padding: Padding
    reach: Padding
    """How far the windows reach beyond the input: the padding and, with ``ceil_mode``, the last window's overhang."""

    @classmethod
    def of(
        cls, x: Array, sizes: Ints, strides: Ints | None, pad_type: str, pad: Ints | None, ceil_mode: bool
    ) -> _Geometry:
        """The geometry that the inputs of an operation describe."""
        spatial = x.shape[2:]
        windows = Windows.over(sizes, strides)
        padding = windows.padding(pad_type, pad, spatial)
        rounds_up = ceil_mode and pad_type in ("valid", "custom")
        return cls(spatial, windows, padding, _rounded_up(windows, spatial, padding) if rounds_up else padding)

    def counts(self, axis: int, *, padded: bool) -> Array:
        """Number of elements of each window along an axis that lie in the input or, if ``padded``, in its padding."""
        before, after = self.padding[axis] if padded else (0, 0)
        extent, stride = self.windows.extents[axis], self.windows.strides[axis]
        starts = np.arange(self.windows.counts(self.spatial, self.reach)[axis]) * stride - self.reach[axis][0]
        counts: Array = np.minimum(starts + extent, self.spatial[axis] + after) - np.maximum(starts, -before)
        return np.maximum(counts, 0)


def _rounded_up(windows: Windows, spatial: Ints, padding: Padding) -> Padding:
    """The padding, extended at the end so that the number of windows is rounded up.

    If there is padding, a last window that would start after the end of the input is left out.
    """
    reach = []
    for size, (before, after), extent, stride in zip(spatial, padding, windows.extents, windows.strides, strict=True):
        count = -(-(size + before + after - extent) // stride) + 1
        if before + after > 0 and (count - 1) * stride >= size + before:
            count -= 1
        reach.append((before, max((count - 1) * stride + extent - size - before, 0)))
    return tuple(reach)


def _pool(call: Call, op_type: str, x: Array, geometry: _Geometry, fill: float, **attributes: Any) -> Array:
    """Pool over the input, extended by as many elements as the windows reach beyond it."""
    windows, reach = geometry.windows, geometry.reach
    shape = x.shape[:2] + windows.counts(geometry.spatial, reach)
    if any(max(ends) >= size for ends, size in zip(reach, windows.sizes, strict=True)):
        # ONNX Runtime refuses padding as large as the window.
        x = np.pad(x, ((0, 0), (0, 0), *reach), constant_values=fill)
        reach = ((0, 0),) * len(reach)
    return run_onnx_op(
        call,
        reach,
        op_type,
        {"x": x},
        work=math.prod(shape) * math.prod(windows.sizes),
        shape=shape,
        kernel_shape=windows.sizes,
        strides=windows.strides,
        pads=onnx_pads(reach),
        **attributes,
    )
