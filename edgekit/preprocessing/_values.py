"""What the declarations for pictures and sounds share."""

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
    """The input's element type.

    Raises:
        InputError: Another one is declared.
    """
    if declared is not None and declared != spec.dtype:
        raise InputError(
            "the declared dtype is not the model's", subject="[preprocessing]", expected=str(spec), found=declared
        )
    return spec.dtype


FEWEST_LEVELS = 64
"""How many of 256 levels of brightness or loudness an integer input has to tell apart."""
MOST_CLIPPED = 64
"""How many of them may lie outside of its type's range."""


def require_levels(levels: np.ndarray, spec: ValueSpec, *others: np.ndarray) -> None:
    """Checks that rounding to an integer input leaves something of a picture or a sound.

    Preprocessing for an input of floating-point numbers, a factor of 1/255 say, leaves 0 and 1 of an integer one.

    Args:
        levels: What 256 levels become by the preprocessing, before they are rounded; a row each for channels.
        spec: The input.
        others: The same of levels that files may have as well.

    Raises:
        InputError: Whatever the levels, few are left, or many lie outside of the type's range.
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
    """What an integer type does not hold of levels; None where it holds enough."""
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
    """What fixes an input's free dimensions, on the command line and in a project file, for a hint.

    Args:
        spec: The input.
        sizes: The sizes of dimensions by their axes, or what to call them; others are called ``SIZE``.
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
