"""Which classes are kept, of channels that may be logits of classes or any other quantities.

Most networks for segmentation end in logits, one channel for each class, and the largest one tells what a pixel or a
voxel shows. A flow or a picture has channels as well, of which the largest says nothing: where two are nearly equal,
rounding decides. So a position counts only if the original is sure of it: its largest logit is ahead of the next by
ln 3, three times the probability, and by more than the error of the whole output explains. A position that still
changes has a far larger error than others, as in a rare organ that integers lose.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from edgekit.comparison.decisions.class_overlap import ClassAccuracy, overlaps

SURE = math.log(3)
"""By how much a logit is ahead whose class has three times the probability of the next one."""
FAR = 3 * math.sqrt(2)
"""By how many root mean squares of an output's error a logit has to be ahead: three standard deviations of a difference
of two channels."""


class SureClassCount:
    """Counts, for each channel, the positions at which the original is sure that it is the largest."""

    def __init__(self) -> None:
        self._in_reference: Counter[int] = Counter()
        self._in_built: Counter[int] = Counter()
        self._in_both: Counter[int] = Counter()

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes an output of both models for one more sample, of one shape, in which channels lie along the last axis.

        Channels that hold no floats, or a single one, do not count.
        """
        channels = reference.shape[-1]
        if reference.dtype.kind != "f" or channels < 2 or reference.size == 0:
            return
        wide, found = (each.reshape(-1, channels).astype(np.float64) for each in (reference, built))
        next_one, largest = np.partition(wide, -2, axis=-1)[:, -2:].T
        error = math.sqrt(float(np.mean((found - wide) ** 2)))
        sure = largest - next_one > max(SURE, FAR * error)  # false of NaN
        wanted, got = wide[sure].argmax(axis=-1), found[sure].argmax(axis=-1)
        for counter, numbers in (
            (self._in_reference, wanted),
            (self._in_built, got),
            (self._in_both, wanted[wanted == got]),
        ):
            counter.update(numbers.tolist())

    def worst(self) -> ClassAccuracy | None:
        """Returns the channel with the least overlap, or None if none is surely the largest at enough positions."""
        classes = overlaps(self._in_reference, self._in_built, self._in_both, is_known=False)
        return min(classes, key=lambda each: (each.overlap, each.number), default=None)
