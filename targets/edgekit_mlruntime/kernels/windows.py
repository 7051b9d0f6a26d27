"""Geometry of the sliding windows of convolution and pooling.

``edgekit_mil.support.windows`` has the same arithmetic: the runtime checks the converter, so the two share no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgekit_mlruntime.registry import Ints

Padding = tuple[tuple[int, int], ...]
"""Elements added before and after each spatial dimension."""


@dataclass(frozen=True)
class Windows:
    """Sizes, strides and dilations of windows over the spatial dimensions."""

    sizes: Ints
    strides: Ints
    dilations: Ints

    @classmethod
    def over(cls, sizes: Sequence[int], strides: Ints | None, dilations: Ints | None = None) -> Windows:
        """Windows of the given sizes; strides and dilations default to 1."""
        ones = (1,) * len(sizes)
        return cls(tuple(sizes), strides or ones, dilations or ones)

    @property
    def extents(self) -> Ints:
        """Number of input elements that a window spans in each dimension, dilation included."""
        return tuple((size - 1) * gap + 1 for size, gap in zip(self.sizes, self.dilations, strict=True))

    def counts(self, spatial: Sequence[int], padding: Padding) -> Ints:
        """Number of whole windows in each dimension of a padded input."""
        return tuple(
            max((size + before + after - extent) // stride + 1, 0)
            for size, (before, after), extent, stride in zip(spatial, padding, self.extents, self.strides, strict=True)
        )

    def padding(self, pad_type: str, pad: Ints | None, spatial: Sequence[int]) -> Padding:
        """Returns the padding of an input.

        ``same`` and ``same_lower`` pad so that the output has ``ceil(input / stride)`` elements. If the padding is odd,
        ``same`` puts the extra element after the input, ``same_lower`` before it: see the message SamePadding of Core
        ML's NeuralNetwork.proto.

        Args:
            pad_type: ``valid``, ``custom``, ``same`` or ``same_lower``.
            pad: Padding for ``custom``: before and after the first dimension, before and after the second …
            spatial: Sizes of the input's spatial dimensions.
        """
        if pad_type == "valid":
            return ((0, 0),) * len(self.sizes)
        if pad_type == "custom":
            return pairs(pad, len(self.sizes))
        amounts = []
        for size, extent, stride in zip(spatial, self.extents, self.strides, strict=True):
            amounts.append(max((-(-size // stride) - 1) * stride + extent - size, 0))
        return split_padding(amounts, pad_type)


def pairs(pad: Ints | None, rank: int) -> Padding:
    """MIL's flat ``pad`` as (before, after) of each dimension; all zero by default."""
    flat = pad or (0,) * (2 * rank)
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def split_padding(amounts: Sequence[int], pad_type: str) -> Padding:
    """Divide each dimension's padding for ``same`` (odd element after) or ``same_lower`` (odd element before)."""
    if pad_type == "same":
        return tuple((amount // 2, amount - amount // 2) for amount in amounts)
    if pad_type == "same_lower":
        return tuple((amount - amount // 2, amount // 2) for amount in amounts)
    raise ValueError(f"pad_type {pad_type!r}")


def onnx_pads(padding: Padding) -> list[int]:
    """Padding in ONNX's order: before each dimension, then after each."""
    return [before for before, _ in padding] + [after for _, after in padding]
