"""What the declarations for pictures and sounds share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from edgekit.errors import InputError
from edgekit.model import ValueSpec


def factor(value: float | str) -> float:
    """A factor that is written as a number or as a quotient (``"1/255"``)."""
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def resolve_dtype(declared: str | None, spec: ValueSpec) -> str:
    """The input's element type.

    Raises:
        InputError: Another one is declared.
    """
    if declared is not None and declared != spec.dtype:
        raise InputError(
            "the declared dtype is not the model's", subject="[preprocessing]", expected=str(spec), found=declared
        )
    return spec.dtype


def as_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Floating-point values as elements of a type; integers are rounded, and clipped to the type's range."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.asarray(values, dtype=kind)
