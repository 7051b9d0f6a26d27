"""Geometry of the windows of convolution and pooling over their input."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit_coreai.translation.registry import CannotTranslate, Ints
from edgekit_coreai.translation.tensors import Tensor

Padding = list[tuple[int, int]]
"""Number of elements added before and after each spatial dimension; negative: cut off."""


def extents(sizes: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Number of input elements that a window spans in each dimension, dilation included."""
    return [(size - 1) * gap + 1 for size, gap in zip(sizes, dilations, strict=True)]


def padding_of(x: Tensor, pad_type: str, pad: Ints | None, reach: Sequence[int], strides: Sequence[int]) -> Padding:
    """Padding of an input [n, C, *D] for windows whose extents are ``reach``.

    ``same`` and ``same_lower`` pad so that the output has ``ceil(input / stride)`` elements. If the padding is odd,
    ``same`` puts the extra element after the input, ``same_lower`` before it. A dimension whose size is open gets the
    largest padding that any size needs: with other sizes, the surplus is less than a stride and adds no window.

    Raises:
        CannotTranslate: The padding before a dimension depends on its size, which is open.
    """
    if pad_type == "valid":
        return [(0, 0)] * len(reach)
    if pad_type == "custom":
        flat = pad or (0,) * (2 * len(reach))
        return list(zip(flat[::2], flat[1::2], strict=True))
    result = []
    for size, extent, stride in zip(x.shape[2:], reach, strides, strict=True):
        if size is None:
            possible = [split(max(extent - 1 - left, 0), pad_type) for left in range(stride)]
            if len({before for before, _ in possible}) > 1:
                raise CannotTranslate(f"pad_type {pad_type!r} with strides over a size that is open")
            result.append(max(possible))
        else:
            result.append(split(max((-(-size // stride) - 1) * stride + extent - size, 0), pad_type))
    return result


def split(amount: int, pad_type: str) -> tuple[int, int]:
    """Divide padding in two: ``same`` puts the odd element after, ``same_lower`` before."""
    return (amount // 2, amount - amount // 2) if pad_type == "same" else (amount - amount // 2, amount // 2)
