"""Upsampling by a whole factor as a convolution: new elements are weighted means of the old ones around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgekit_mil.core.mil import Var, mb

WIDE = 16
"""A size at which elements in the middle see no edge."""
CLOSE = 1e-6


@dataclass(frozen=True)
class UpsamplingFilter:
    """The weights of the new elements for an element along one axis; edge elements are repeated beyond the edges."""

    weights: np.ndarray
    """[factor, taps]."""
    before: int
    """Number of taps before the element."""

    @property
    def behind(self) -> int:
        """Number of taps after the element."""
        return int(self.weights.shape[1]) - self.before - 1

    def table(self, size: int) -> np.ndarray:
        """The weights [factor * size, size] of all new elements of an axis."""
        factor, taps = self.weights.shape
        table = np.zeros((size, factor, size))
        for place in range(size):
            for tap in range(taps):
                table[place, :, min(max(place + tap - self.before, 0), size - 1)] += self.weights[:, tap]
        return table.reshape(size * factor, size)


def filter_of(tables: Callable[[int], np.ndarray], factor: int, sizes: tuple[int, ...]) -> UpsamplingFilter | None:
    """The filter that produces a table of weights; None if it does not at one of the sizes, as with aligned corners.

    Args:
        tables: Gives the weights [factor * size, size] for a size.
        factor: The factor by which sizes are multiplied.
        sizes: The sizes at which the filter has to produce the table.
    """
    middle = WIDE // 2
    rows = tables(WIDE)[middle * factor : (middle + 1) * factor]
    used = np.flatnonzero(np.abs(rows).max(0) > CLOSE)
    first, last = min(int(used[0]), middle), max(int(used[-1]), middle)
    found = UpsamplingFilter(rows[:, first : last + 1], middle - first)
    same = all(np.allclose(found.table(size), tables(size), rtol=0, atol=CLOSE) for size in sizes)
    return found if same else None


def upsampled(x: Var, vertical: UpsamplingFilter, horizontal: UpsamplingFilter) -> Var:
    """Pictures [n, channels, h, w], h and w open, with both sizes multiplied by the same factor."""
    factor, channels = len(vertical.weights), int(x.shape[1])
    pads = [vertical.before, vertical.behind, horizontal.before, horizontal.behind]
    if any(pads):
        x = mb.pad(x=x, pad=pads, mode="replicate")
    kernels = np.einsum("ih,jw->ijhw", vertical.weights, horizontal.weights).reshape(
        factor * factor, 1, vertical.weights.shape[1], horizontal.weights.shape[1]
    )
    weight = np.tile(kernels.astype(np.float32), (channels, 1, 1, 1))
    found = mb.conv(x=x, weight=weight, groups=channels, pad_type="valid")
    return mb.pixel_shuffle(x=found, upscale_factor=factor)
