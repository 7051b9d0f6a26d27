"""Pooling. Apple's operations are the maximum and the sum of windows in two or three dimensions, without padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.ops.convolution import padded
from edgekit_coreai.translation.ops.windows import Padding, padding_of
from edgekit_coreai.translation.registry import Call, CannotTranslate, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor


@dataclass(frozen=True)
class _Geometry:
    """Position of the windows of a pooling operation over its input."""

    spatial: Sequence[int | None]
    sizes: Sequence[int]
    strides: Sequence[int]
    padding: Padding
    reach: Padding
    """How far the windows reach beyond the input: the padding and, with ``ceil_mode``, the last window's overhang."""

    def counts(self, axis: int) -> int | None:
        """Number of windows along a spatial dimension."""
        size = self.spatial[axis]
        before, after = self.reach[axis]
        return None if size is None else (size + before + after - self.sizes[axis]) // self.strides[axis] + 1

    def elements(self, axis: int, *, count_padding: bool) -> np.ndarray:
        """Number of elements of each window along a dimension that lie in the input or, if wanted, in its padding."""
        size, count = self.spatial[axis], self.counts(axis)
        assert size is not None
        assert count is not None
        before, after = self.padding[axis] if count_padding else (0, 0)
        starts = np.arange(count) * self.strides[axis] - self.reach[axis][0]
        found: np.ndarray = np.minimum(starts + self.sizes[axis], size + after) - np.maximum(starts, -before)
        return np.asarray(np.maximum(found, 0))


def _geometry(
    x: Tensor, sizes: Ints, strides: Ints | None, pad_type: str, pad: Ints | None, ceil_mode: bool
) -> _Geometry:
    steps = strides or (1,) * len(sizes)
    padding = padding_of(x, pad_type, pad, sizes, steps)
    reach = padding
    if ceil_mode and pad_type in ("valid", "custom"):
        if not x.is_static and None in x.shape[2:]:
            raise CannotTranslate("ceil_mode over a size that is open")
        reach = []
        for size, (before, after), extent, stride in zip(x.shape[2:], padding, sizes, steps, strict=True):
            assert size is not None
            count = -(-(size + before + after - extent) // stride) + 1
            # A last window that would start after the end of the input is left out.
            if before + after > 0 and (count - 1) * stride >= size + before:
                count -= 1
            reach.append((before, max((count - 1) * stride + extent - size - before, 0)))
    return _Geometry(x.shape[2:], sizes, steps, padding, reach)


@lowering("max_pool")
def max_pool(
    b: Builder,
    call: Call,
    x: Tensor,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Maximum of each window of ``x`` [n, C, *D]; padding counts as minus infinity."""
    geometry = _geometry(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    source = padded(b, x, geometry.reach, -np.inf if x.is_float else np.iinfo(x.dtype).min)
    counts = [geometry.counts(axis) for axis in range(len(kernel_sizes))]
    if x.rank == 3:
        source = b.expand(source, [2])
        shape = [*x.shape[:2], 1, *counts]
        return b.squeeze(b.max_pool(source, shape, (1, *kernel_sizes), (1, *geometry.strides)), [2])
    return b.max_pool(source, [*x.shape[:2], *counts], kernel_sizes, geometry.strides)


def _sums(b: Builder, x: Tensor, geometry: _Geometry) -> Tensor:
    """Sum of each window; elements beyond the input count as zero."""
    source = padded(b, x, geometry.reach)
    if x.rank == 3:
        sums = b.sum_pool(b.expand(source, [2]), (1, *geometry.sizes), (1, *geometry.strides))
        return b.squeeze(sums, [2])
    return b.sum_pool(source, geometry.sizes, geometry.strides)


@lowering("avg_pool")
def avg_pool(
    b: Builder,
    call: Call,
    x: Tensor,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
) -> Tensor:
    """Mean of each window of ``x`` [n, C, *D]; padding counts as zeros unless ``exclude_padding_from_average``."""
    geometry = _geometry(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    x = b.wide(x)
    sums = _sums(b, x, geometry)
    inside = geometry.reach == geometry.padding and not exclude_padding_from_average
    if inside or not any(width for pair in geometry.reach for width in pair):
        return b.div(sums, math.prod(kernel_sizes))
    if None not in geometry.spatial:
        divisor = np.ones((), np.float32)
        for axis in range(len(kernel_sizes)):
            counts = geometry.elements(axis, count_padding=not exclude_padding_from_average)
            divisor = divisor * np.maximum(counts, 1).reshape(-1, *(1,) * (len(kernel_sizes) - 1 - axis))
        return b.div(sums, b.constant(divisor.astype(np.float32).reshape(1, 1, *divisor.shape)))
    ones = b.broadcast(b.like(1, x), [1, 1, *b.all_sizes(x)[2:]])
    return b.div(sums, _sums(b, ones, geometry))


@lowering("l2_pool")
def l2_pool(
    b: Builder,
    call: Call,
    x: Tensor,
    kernel_sizes: Ints,
    pad_type: str,
    strides: Ints | None = None,
    pad: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Square root of the sum of squares of each window of ``x`` [n, C, *D]; padding counts as zeros."""
    geometry = _geometry(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    x = b.wide(x)
    return b.op("sqrt", _sums(b, b.mul(x, x), geometry))
