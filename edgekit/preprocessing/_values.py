"""Functions that the declarations for pictures and sounds share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from shlex import quote

import numpy as np

from edgekit.errors import InputError
from edgekit.model import ValueSpec


def factor(value: float | str) -> float:
    """A factor that is written as a number or as a quotient (``"1/255"``)."""
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def resolve_dtype(declared: str | None, spec: ValueSpec) -> str:
    """Returns the input's element type.

    Raises:
        InputError: Another element type is declared.
    """
    if declared is not None and declared != spec.dtype:
        raise InputError(
            "the declared dtype is not the model's", subject="[preprocessing]", expected=str(spec), found=declared
        )
    return spec.dtype


FEWEST_LEVELS = 64
"""The fewest of 256 levels of brightness or loudness that an integer input has to distinguish."""
MOST_CLIPPED = 64
"""The most of 256 levels that may lie outside the range of the input's type."""


def require_levels(levels: np.ndarray, spec: ValueSpec, *others: np.ndarray) -> None:
    """Checks that a picture or a sound keeps enough levels when it is rounded to an integer input.

    Preprocessing meant for floating-point inputs, for example a factor of 1/255, leaves only 0 and 1 in an integer
    input.

    Args:
        levels: 256 levels after preprocessing, before rounding; a row for each channel.
        spec: The input.
        others: Further such arrays, for other levels that files may have.

    Raises:
        InputError: In each of these arrays, few levels are left, or many lie outside the type's range.
    """
    if np.dtype(spec.dtype).kind not in "iu" or None in [_lost(each, spec.dtype) for each in (levels, *others)]:
        return
    limits = np.iinfo(spec.dtype)
    raise InputError(
        "[preprocessing] makes numbers that an integer input does not hold",
        subject=f"input {spec.name!r}",
        expected=f"whole numbers from {limits.min} to {limits.max}",
        found=f"{spec}, and of 256 levels {_lost(levels, spec.dtype)}: from {levels.min():.4g} to {levels.max():.4g}",
        hint="if the model scales its input itself, leave mean and std out, and set scale = 1",
    )


def _lost(levels: np.ndarray, dtype: str) -> str | None:
    """Returns what an integer type loses of levels, in words, or None if it keeps enough."""
    limits = np.iinfo(dtype)
    clipped = int(((levels < limits.min - 1) | (levels > limits.max + 1)).sum(axis=-1).max())
    apart = min(len(np.unique(row)) for row in as_dtype(levels, dtype))
    if apart < FEWEST_LEVELS:
        return f"{apart} whole numbers"
    return f"{clipped} outside of the type's range" if clipped > MOST_CLIPPED else None


def as_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Floating-point values as elements of a type; integers are rounded, and clipped to the type's range."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.asarray(values, dtype=kind)


def fixed_by(spec: ValueSpec, sizes: Mapping[int, int | str] | None = None) -> str:
    """Returns the options that fix an input's free dimensions, on the command line and in a project file, for a hint.

    Args:
        spec: The input.
        sizes: Sizes of dimensions by axis, or placeholders for them; other dimensions are written as ``SIZE``.
    """
    known = sizes or {}
    shape = spec.shape or ()
    written = [dim if isinstance(dim, int) else known.get(axis, "SIZE") for axis, dim in enumerate(shape)]
    named = {dim: written[axis] for axis, dim in enumerate(shape) if isinstance(dim, str)}
    if named and not any(dim is None for dim in shape):
        flags = " ".join(f"--dim {quote(name)}={size}" for name, size in named.items())
        entries = ", ".join(f"{json.dumps(name, ensure_ascii=False)} = {size}" for name, size in named.items())
        return f"{flags} (in a project file dims = {{ {entries} }})"
    sizes_of_shape = ",".join(map(str, written)) or "SIZE,…"
    entry = f"{json.dumps(spec.name, ensure_ascii=False)} = [{sizes_of_shape.replace(',', ', ')}]"
    return f"--shape {quote(spec.name)}={sizes_of_shape} (in a project file shapes = {{ {entry} }})"
