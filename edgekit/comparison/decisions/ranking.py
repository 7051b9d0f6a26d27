"""How well scores rank samples of two classes: the area under the ROC curve.

It is the share of pairs of a sample of class 1 and one of class 0 in which the former has the greater score; equal
scores count a half (Mann and Whitney, 1947; Fawcett, An introduction to ROC analysis, 2006). If one class is rare, as
frauds are, the area shows what the share of labels found does not: a model that always answers 'none' finds nearly all
labels.
"""

from __future__ import annotations

import numpy as np


class Ranking:
    """Gathers the scores of class 1 by label."""

    def __init__(self) -> None:
        self._scores: tuple[list[float], list[float]] = ([], [])

    def add(self, label: int, scores: np.ndarray) -> None:
        """Takes a sample's score of class 1, or the scores of both classes, whose difference is ranked.

        Args:
            label: 0 or 1.
            scores: One number or two.
        """
        wide = scores.astype(np.float64).ravel()
        self._scores[label].append(float(wide[-1] - (wide[0] if wide.size > 1 else 0.0)))

    def area(self) -> float | None:
        """Returns the area, 0 to 1, or None without samples of both classes, or if a score is NaN."""
        none, some = (np.array(each) for each in self._scores)
        if not none.size or not some.size or np.isnan(none).any() or np.isnan(some).any():
            return None
        none.sort()
        below = np.searchsorted(none, some, side="left") + np.searchsorted(none, some, side="right")
        return float(below.sum()) / (2 * none.size * some.size)
