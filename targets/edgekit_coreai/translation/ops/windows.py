"""How the windows of convolutions and poolings lie over their input."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit_coreai.translation.registry import CannotTranslate, Ints
from edgekit_coreai.translation.tensors import Tensor

Padding = list[tuple[int, int]]
"""Elements added before and after each spatial dimension; negative: cut off."""


def extents(sizes: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Elements from the first to the last of a window."""
    return [(size - 1) * gap + 1 for size, gap in zip(sizes, dilations, strict=True)]


def padding_of(x: Tensor, pad_type: str, pad: Ints | None, reach: Sequence[int], strides: Sequence[int]) -> Padding:
    """Padding of an input [n, C, *D] under windows that reach this far.

    ``same`` and ``same_lower`` pad so that the output has ``ceil(input / stride)`` elements, the odd element after, or
    before, the input. Where the size is open, it is padded after the input for the size that needs the most: of another
    less than a window is left over, which is cut off.

    Raises:
        CannotTranslate: What is padded before an open size depends on it.
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
