"""How near embeddings are to the original's: by their angles, and by the order of neighbors.

An app with an encoder compares vectors: which of two is nearer, and whether they are nearer than a bound. Vectors of
one encoder share much: the cosine of any two may be above 0.9, and then a model that always gives the mean vector has a
cosine of 0.95 to each of the original's. Two figures show such errors:

- the order of neighbors: the rank correlation (Spearman 1904) between the cosines of a built vector to the original
  vectors of all *other* samples, and the cosines of its original to these; the mean over all vectors. A built vector is
  searched among the original vectors, as one that a device computes is in an index that a server made; a vector that is
  turned or permuted finds nothing there. Rank correlations of cosines are what benchmarks of sentence encoders report
  (STS in MTEB, Muennighoff et al. 2023);
- the share that is explained: 1 - Σ|built - original|² / Σ|original - mean|², which is 0 for the mean vector. Lengths
  count in it, since inner products and distances depend on them, but little: vectors of 1.1 times the length are an
  error of 1 % of the power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.comparison.embeddings.encoders import rows_of

FEWEST_RANKED = 8
"""The least number of vectors whose neighbors are ranked, 7 of each; with fewer, the explained share counts."""
FEWEST_VECTORS = 2
MOST_RANKED = 512
"""Of more vectors, only this many, evenly among them, have their neighbors ranked."""
LEAST_EXPLAINED = 0.9
"""The least share of the variance that has to be explained over all samples: 10 dB."""
LOST = 0.5
"""A vector is lost if its error is more than this share of an average vector's variance: 3 dB."""
MOST_LOST = 0.05
SAME = 1e-4
"""Vectors that vary by at most this share of their power are the same vector for all samples."""
DIGITS = 6
"""The number of decimals of a cosine that single precision determines."""


@dataclass(frozen=True)
class Angles:
    """How near vectors are to the original's."""

    vectors: int
    lost: int
    """How many vectors are lost, see :data:`LOST`."""
    rank: float | None
    """Rank correlation of cosines, from -1 to 1; None with fewer than :data:`FEWEST_RANKED` vectors."""
    cosine: float
    """Cosine to the original's vector, on average."""
    worst_cosine: float
    explained: float
    """The share of the variance that is explained; negative if the error is larger than the variance."""
    tells: bool
    """Whether there are enough vectors, which differ, to judge by."""

    @property
    def agreement(self) -> float:
        """The rank correlation; with too few vectors for one, the share that is explained."""
        return self.explained if self.rank is None else self.rank

    @property
    def flaw(self) -> str | None:
        """Which floor is missed whatever the order of neighbors is, in words; None if none is."""
        if not self.explained >= LEAST_EXPLAINED:
            return f"explains {self.explained:.1%} of the variance between vectors (at least {LEAST_EXPLAINED:.0%})"
        if self.lost > MOST_LOST * self.vectors:
            return f"{self.lost} of {self.vectors} vectors are lost (at most {MOST_LOST:.0%})"
        return None


class VectorPairs:
    """Gathers :class:`Angles` of one output."""

    def __init__(self) -> None:
        self._wanted: list[np.ndarray] = []
        self._got: list[np.ndarray] = []

    def add(self, reference: np.ndarray, built: np.ndarray) -> None:
        """Takes the output for one more sample; another shape becomes zeros, and so do infinite or NaN elements."""
        wanted, got = rows_of(reference), np.asarray(built)
        fits = got.shape == reference.shape
        self._wanted.append(wanted.astype(np.float32))
        found = rows_of(got).astype(np.float32) if fits else np.zeros(wanted.shape, np.float32)
        self._got.append(np.where(np.isfinite(found), found, np.float32(0)))

    def result(self) -> Angles:
        """What the samples so far say; at least one has been added."""
        wanted, got = (np.concatenate(each).astype(np.float64) for each in (self._wanted, self._got))
        scale = (
            float(np.abs(wanted).max(initial=0.0)) or 1.0
        )  # keeps the squares of very large and very small ones in range
        wanted, got = wanted / scale, got / scale
        errors = np.square(got - wanted).sum(axis=1)
        spread = np.square(wanted - wanted.mean(axis=0)).sum(axis=1)
        variance, power = float(spread.mean()), float(np.square(wanted).sum(axis=1).mean())
        tells = len(wanted) >= FEWEST_VECTORS and variance > SAME * power
        cosines = (_directions(wanted) * _directions(got)).sum(axis=1)
        cosines[~(wanted.any(axis=1) | got.any(axis=1))] = 1.0  # zeros in both models: the same vector
        return Angles(
            vectors=len(wanted),
            lost=int((errors > LOST * variance).sum()) if tells else 0,
            rank=_rank_correlation(wanted, got) if tells and len(wanted) >= FEWEST_RANKED else None,
            cosine=float(cosines.mean()),
            worst_cosine=float(cosines.min()),
            explained=1 - float(errors.mean()) / variance if tells else 0.0,
            tells=tells,
        )


def worst_of(found: Mapping[str, Angles]) -> tuple[tuple[str, ...], Angles]:
    """Returns the outputs that can be judged, and the worst of their figures; all outputs if none can be judged."""
    names = tuple(name for name, each in found.items() if each.tells) or tuple(found)
    angles: Sequence[Angles] = [found[name] for name in names]
    ranks = [each.rank for each in angles if each.rank is not None]
    return names, Angles(
        vectors=sum(each.vectors for each in angles),
        lost=sum(each.lost for each in angles),
        rank=min(ranks, default=None),
        cosine=min(each.cosine for each in angles),
        worst_cosine=min(each.worst_cosine for each in angles),
        explained=min(each.explained for each in angles),
        tells=angles[0].tells,
    )


def _directions(vectors: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: np.ndarray = vectors / np.where(lengths > 0, lengths, 1.0)
    return scaled


def _rank_correlation(wanted: np.ndarray, got: np.ndarray) -> float | None:
    """Returns Spearman's rank correlation between cosines to other samples' originals, as a mean over vectors.

    None if all cosines of each original are the same.
    """
    places = np.linspace(0, len(wanted) - 1, min(len(wanted), MOST_RANKED)).round().astype(int)
    originals, built = _directions(wanted[places]), _directions(got[places])
    cosines = [(vectors @ originals.T).round(DIGITS) for vectors in (originals, built)]
    found = []
    for row in range(len(places)):
        one, other = (_ranks(np.delete(each[row], row)) for each in cosines)
        if one.any():
            scale = float(np.sqrt((one @ one) * (other @ other)))
            found.append(float(one @ other) / scale if scale else 0.0)
    return float(np.clip(np.mean(found), -1, 1)) if found else None


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """Returns the rank of each number, counted from the middle; equal numbers get the mean of their ranks."""
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    places: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    places -= places.mean()
    return places
