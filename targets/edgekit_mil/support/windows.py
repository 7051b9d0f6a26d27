"""The windows of convolution and pooling: computes ``auto_pad``, pads, strides and dilations in numbers.

``edgekit_mlruntime.kernels.windows`` has the same arithmetic: the runtime judges the converter, so they share no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mil.core.values import Infeasible, Unsupported, Value

MOST_SPATIAL = 3
"""Core ML convolves and pools over one to three spatial dimensions."""

Ints = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Windows:
    """Sizes, strides and dilations of a sliding window, with one number for each spatial dimension."""

    sizes: Ints
    strides: Ints
    dilations: Ints

    @classmethod
    def over(cls, sizes: Sequence[int], strides: Sequence[int] | None, dilations: Sequence[int] | None) -> Windows:
        """Windows with ONNX's defaults for arguments left out; the dilation of a window of one element is 1.

        Raises:
            Unsupported: More spatial dimensions than Core ML has, or none.
            Infeasible: A number is less than 1, or they are not for the same number of dimensions.
        """
        count = len(sizes)
        if not 1 <= count <= MOST_SPATIAL:
            raise Unsupported(f"has {count} spatial dimensions, Core ML takes 1 to {MOST_SPATIAL}")
        for what, numbers in (("windows", sizes), ("strides", strides or ()), ("dilations", dilations or ())):
            if numbers and len(numbers) != count:
                raise Infeasible(f"has {what} of {list(numbers)} for {count} spatial dimensions")
            counting = zip(numbers, sizes, strict=False)  # the dilation of one element counts for nothing
            if any(number < 1 for number, size in counting if numbers is not dilations or size != 1):
                raise Infeasible(f"has {what} of {list(numbers)}: the least is 1")
        ones = (1,) * count
        holes = tuple(1 if size == 1 else each for size, each in zip(sizes, dilations or ones, strict=True))
        return cls(tuple(sizes), tuple(strides or ones), holes)

    @property
    def extents(self) -> Ints:
        """How many elements each window spans, dilation included."""
        return tuple((size - 1) * dilation + 1 for size, dilation in zip(self.sizes, self.dilations, strict=True))

    @property
    def is_dilated(self) -> bool:
        """Whether windows have holes."""
        return any(dilation > 1 for dilation in self.dilations)

    def padding(self, x: Value, auto_pad: str, pads: Sequence[int] | None) -> Padding:
        """The padding before and after each spatial dimension of ``x``.

        ``SAME_UPPER`` and ``SAME_LOWER`` give ``ceil(size / stride)`` windows and put the odd element at the end or at
        the beginning.

        Raises:
            Unsupported: ``SAME_*`` with strides on a dynamic dimension, or negative pads.
        """
        count = len(self.sizes)
        if auto_pad == "NOTSET":
            return explicit_padding(pads, count)
        if auto_pad == "VALID":
            return ((0, 0),) * count
        if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            raise Unsupported(f"unknown auto_pad {auto_pad!r}")
        if set(self.strides) == {1}:  # a window for every element, whatever the size
            totals = [extent - 1 for extent in self.extents]
        else:
            spatial = x.static_sizes(range(2, x.rank))
            totals = [
                max((-(-size // stride) - 1) * stride + extent - size, 0)
                for size, stride, extent in zip(spatial, self.strides, self.extents, strict=True)
            ]
        return tuple(halves(total, extra_at_end=auto_pad == "SAME_UPPER") for total in totals)

    def named_padding(self, x: Value, auto_pad: str) -> str | None:
        """MIL's name for a padding that :meth:`padding` cannot compute: ``SAME_*`` with strides on open sizes.

        MIL's ``same`` and ``same_lower`` pad as ONNX's ``SAME_UPPER`` and ``SAME_LOWER`` do, once sizes are known.
        """
        is_open = any(not isinstance(size, int | np.integer) for size in x.shape[2:])
        if is_open and max(self.strides) > 1:
            return {"SAME_UPPER": "same", "SAME_LOWER": "same_lower"}.get(auto_pad)
        return None

    def reach(self, x: Value, padding: Padding, ceil_mode: bool) -> Padding:
        """How far windows reach beyond the input: the padding and, with ``ceil_mode``, what the last window needs more.

        ``ceil_mode`` rounds the number of windows up, but a window that would start in the padding after the input is
        left out. For an open size, windows reach as far as any size may need, but less than a window beyond the last
        element: a remainder that is smaller than a window is cut off.
        """
        if not ceil_mode:
            return padding
        reach = []
        sizes = x.shape[2:]
        for size, (before, after), extent, stride in zip(sizes, padding, self.extents, self.strides, strict=True):
            if not isinstance(size, int | np.integer):
                reach.append((before, min(after + stride, extent) - 1))
                continue
            count = -(-(size + before + after - extent) // stride) + 1
            if (count - 1) * stride >= size + before:
                count -= 1
            reach.append((before, max((count - 1) * stride + extent - size - before, 0)))
        return tuple(reach)

    def require_one(self, x: Value, reach: Padding) -> None:
        """Checks that there is a window along each dimension whose size is known.

        Raises:
            Unsupported: The windows are larger than the input: nothing comes out, and Core ML has no empty tensors.
        """
        for size, (before, after), extent in zip(x.shape[2:], reach, self.extents, strict=True):
            if isinstance(size, int | np.integer) and size + before + after < extent:
                raise Unsupported(
                    f"a window of {extent} is larger than the size {size + before + after}: its output is empty",
                    "check what the shapes are fixed to",
                )

    def counts(self, spatial: Sequence[int], reach: Padding) -> Ints:
        """How many windows there are in each dimension."""
        return tuple(
            (size + before + after - extent) // stride + 1
            for size, (before, after), extent, stride in zip(spatial, reach, self.extents, self.strides, strict=True)
        )


def explicit_padding(pads: Sequence[int] | None, count: int) -> Padding:
    """ONNX's pads, all the beginnings before all the ends, as pairs.

    Raises:
        Unsupported: A pad is negative.
    """
    if not pads:
        return ((0, 0),) * count
    if min(pads) < 0:
        raise Unsupported("has negative pads")
    return tuple(zip(pads[:count], pads[count:], strict=True))


def halves(total: int, *, extra_at_end: bool) -> tuple[int, int]:
    """Splits a total over both ends."""
    small = total // 2
    return (small, total - small) if extra_at_end else (total - small, small)


def mil_padding(named: str | None, padding: Padding) -> dict[str, Any]:
    """MIL's arguments for a padding: by its name where it has one, else in numbers."""
    return {"pad_type": "custom", "pad": flat(padding)} if named is None else {"pad_type": named}


def flat(padding: Padding) -> list[int]:
    """Padding as MIL takes it: before and after of the first dimension, then of the next."""
    return [amount for pair in padding for amount in pair]
