"""Sample data for calibration and checks: re-iterable, streamed, one sample at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Sample:
    """One sample: what to feed by input name, and its label where the data has labels."""

    name: str
    feeds: dict[str, np.ndarray]
    label: int | None = None


class Samples(Protocol):
    """A set of samples that can be walked more than once; each walk reads the files again, so none is kept."""

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sample]: ...
