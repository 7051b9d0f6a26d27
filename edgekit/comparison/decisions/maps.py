"""Compares what maps of probabilities find, as segmentation networks give one for each class.

A map is a class's if the original is sure of it: its numbers are nearly 0 or nearly 1, and few numbers lie between. A
picture's colors, a depth or a heat map have as many numbers about a half as above, and whether one of them is more than
a half is no decision: rounding changes it. A map is also a class's if classes have names.
"""

from __future__ import annotations

import numpy as np

from edgekit.comparison.decisions.class_overlap import CROSSING, FEWEST, UNSURE, ClassAccuracy


class MapCount:
    """Counts, for each map, the positions that two models find, and those of which the original is not sure."""

    def __init__(self) -> None:
        self._counts = np.zeros((4, 0), np.int64)

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes an output of both models for one more sample, of one shape, in which maps lie along the last axis."""
        maps = reference.shape[-1]
        least, most = UNSURE
        yes, found = (each.reshape(-1, maps) > CROSSING for each in (reference, built))
        unsure = (reference.reshape(-1, maps) > least) & (reference.reshape(-1, maps) < most)
        counts = np.stack([each.sum(axis=0) for each in (yes, found, yes & found, unsure)])
        if self._counts.shape != counts.shape:
            self._counts = np.zeros_like(counts)
        self._counts = self._counts + counts

    def worst(self, *, named: bool) -> ClassAccuracy | None:
        """Returns the map with the least overlap, lost maps of classes first, or None if none has enough positions.

        Args:
            named: Whether the maps have the names of classes.
        """
        maps = []
        for number, (places, found, kept, unsure) in enumerate(self._counts.T.tolist()):
            if places >= FEWEST:
                is_known = named or unsure <= places
                maps.append(ClassAccuracy(number, places, kept, kept / (places + found - kept), is_known, is_map=True))
        return min(
            maps, key=lambda each: (not (each.is_known and each.is_lost), each.overlap, each.number), default=None
        )
