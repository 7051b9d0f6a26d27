"""What was built, and what is asked of its outputs by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kind of a built model, by which its accuracy is judged."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    QUANTIZED = "quantized"


SQNR_FLOOR_DB = {Kind.FLOAT32: 50.0, Kind.FLOAT16: 20.0, Kind.QUANTIZED: 20.0}
"""The SQNR that an output has to reach, in dB."""
WEAKEST_BELOW_DB = 10.0
"""How many dB lower the floor of a single sample is than that of all samples together."""
MAX_DROP = 0.01
"""The share of the labels that may be lost."""
MAX_DISAGREEMENT = 0.05
"""The share of decisions, boxes or characters that may change."""
LOSS_DIGITS = 9
"""The number of decimals to which shares and losses are rounded before they are compared with a limit."""


def loss(original: float, built: float) -> float:
    """How far a share is below that of the original, rounded to :data:`LOSS_DIGITS`; negative where it is above.

    In floating point 0.98 - 0.97 is a little more than 0.01, so one lost label of 100 would exceed a limit of 1%.
    """
    return round(original - built, LOSS_DIGITS)


@dataclass(frozen=True)
class Floors:
    """The floors that a built model has to reach."""

    sqnr_db: float
    agreement: float | None
    """The share of equal decisions with which an output passes, too; None if the SQNR alone decides."""
    max_drop: float | None
    """Share of the samples whose labels may be lost; None without labels that prove something."""
    exact_integers: bool
    weakest_db: float | None = None
    """The SQNR in dB that a single sample has to reach; None if :attr:`sqnr_db` is asked of every sample."""
    asked: bool = False
    """Whether the user asked for :attr:`sqnr_db`."""

    @classmethod
    def of(cls, kind: Kind, *, labelled: bool, max_drop: float | None, floor_db: float | None = None) -> Floors:
        """The floors for what was built.

        Args:
            kind: What was built.
            labelled: Whether the samples have labels that prove something.
            max_drop: The loss that the user allows, as a fraction; None if not given.
            floor_db: The SQNR in dB that the user asks for; None if not given.
        """
        reduced = kind is not Kind.FLOAT32
        sqnr_db = SQNR_FLOOR_DB[kind] if floor_db is None else floor_db
        return cls(
            sqnr_db=sqnr_db,
            agreement=loss(1.0, MAX_DISAGREEMENT if max_drop is None or labelled else max_drop) if reduced else None,
            max_drop=(MAX_DROP if max_drop is None else max_drop) if labelled else None,
            exact_integers=not reduced,
            weakest_db=sqnr_db - WEAKEST_BELOW_DB if reduced else None,
            asked=floor_db is not None,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Floors:
        """The floors that a manifest holds."""
        return cls(**record)
