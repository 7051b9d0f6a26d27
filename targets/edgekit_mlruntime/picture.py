"""Pictures at the border of a program: the pixels from which preprocessing makes a caller's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_mlruntime.program import Array


@dataclass(frozen=True)
class Picture:
    """How pixels become the ONNX model's input: ``(pixel · scale - mean) / std``."""

    scale: float
    mean: Sequence[float]
    std: Sequence[float]
    """One number per channel, or a single number for all channels, as for ``mean``."""
    color: str
    """The order of the channels, the same in the pixels and in the input."""
    layout: str
    """The input's dimensions, such as ``NHWC``."""

    def pixels(self, array: Array) -> Array:
        """Returns the pixels that an input was made from: (1, channels, height, width), float32, not rounded."""
        present = [letter for letter in "NCHW" if letter in self.layout]
        ordered = array.transpose([self.layout.index(letter) for letter in present])
        absent = tuple(axis for axis, letter in enumerate("NCHW") if letter not in self.layout)
        values = np.expand_dims(ordered.astype(np.float64), absent)
        mean, std = (np.array(numbers).reshape(1, -1, 1, 1) for numbers in (self.mean, self.std))
        return np.asarray((values * std + mean) / self.scale, np.float32)
