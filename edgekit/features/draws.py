"""Random numbers that a model takes as an input, since no two runtimes draw the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Draw:
    """The distribution from which an input's numbers are drawn independently."""

    distribution: str
    """The name of the distribution: ``normal``, ``uniform`` or ``gumbel``.

    ``normal`` has mean ``first`` and standard deviation ``second``. ``uniform`` is from ``first`` up to, but without,
    ``second``. ``gumbel`` has location ``first`` and scale ``second``: it is ``first - second * log(-log(u))`` for a
    uniform ``u`` between 0 and 1.
    """
    first: float
    second: float

    def numbers(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws numbers in float64."""
        found: np.ndarray = getattr(rng, self.distribution)(self.first, self.second, shape)
        return found

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Draw:
        """Reads the record that :meth:`as_record` wrote."""
        return cls(**record)

    def __str__(self) -> str:
        first, second = f"{self.first:g}", f"{self.second:g}"
        if self.distribution == "uniform":
            return f"uniform from {first} to {second}"
        if self.distribution == "gumbel":
            return "-log(-log(u)) of a u that is uniform between 0 and 1"
        return f"normal with mean {first} and standard deviation {second}"
