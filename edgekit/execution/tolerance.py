"""What counts as the same number in two forms of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SENSITIVE = {"Log": (0,), "Sqrt": (0,), "Div": (1,), "Mod": (0, 1), "Pow": (0, 1), "Reciprocal": (0,)}
"""Operators that make much of a small difference, and the inputs where they do."""

_EACH = 32
"""Units in the last place of the largest number that any number may differ by, where each is measured by itself."""

_AT_ONCE = 1 << 15
"""Numbers whose differences are computed at once, in double precision: as many as the caches of a processor hold."""

_MOST_STEP_BYTES = 2
"""Quantized tensors are of 8 or 16 bits."""
_STEPS_SHARE = 1 / 2
"""Of a quantized tensor's elements, those that may be the next step: nearly half of the averages of four numbers that
are 0 or 255 lie in the middle between two."""


def compare(name: str, expected: Any, found: Any, *, each: bool = False, tolerance: float = 1) -> str | None:
    """What differs between two outputs, in a few words; None where nothing does.

    Floating-point values may differ by the square root of their type's epsilon, relative to the largest value: half of
    the digits, which is far more than reordered arithmetic takes and far less than a wrong rewrite does.

    Args:
        name: What to call it.
        expected: An array, or a list of arrays where the output is a sequence.
        found: The same of the changed model; None where it has no such output.
        each: Measure every number's difference by the number itself, beyond a few units in the last place of the
            largest one.
        tolerance: How much of what is said above is allowed.
    """
    if found is None:
        return f"{name} is gone"
    if isinstance(expected, Sequence) and not isinstance(expected, str):  # ONNX sequences are lists
        if not isinstance(found, Sequence) or len(found) != len(expected):
            return f"{name} has another length"
        parts = (
            compare(f"{name}[{i}]", *pair, each=each, tolerance=tolerance)
            for i, pair in enumerate(zip(expected, found, strict=True))
        )
        return next((part for part in parts if part), None)
    expected, found = np.asarray(expected), np.asarray(found)
    are_texts = expected.dtype.kind in "OSU" and found.dtype.kind in "OSU"
    if expected.shape != found.shape or (expected.dtype != found.dtype and not are_texts):
        return f"{name} is {found.dtype}{list(found.shape)}, was {expected.dtype}{list(expected.shape)}"
    if not np.issubdtype(expected.dtype, np.inexact):
        return None if np.array_equal(expected, found) else f"{name} has other values"
    if np.array_equal(expected, found):
        return None
    epsilon = float(np.finfo(expected.dtype).eps)
    allowed = tolerance * epsilon**0.5
    finite = np.isfinite(expected)
    if not finite.all():
        if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
            return f"{name} has infinities or NaN at other places"
        expected, found = expected[finite], found[finite]
    if not expected.size:
        return None
    error = largest = 0.0
    for errors, sizes in _in_blocks(expected, found):
        error, largest = float(np.maximum(error, np.max(errors))), max(largest, float(np.max(sizes)))
    if error <= tolerance * _EACH * epsilon * largest or (not each and error <= allowed * largest):
        return None
    if each and all(np.all(errors <= allowed * sizes) for errors, sizes in _in_blocks(expected, found)):
        return None
    return f"{name} differs by {error:.3g}, its largest value is {largest:.3g}"


def _in_blocks(expected: np.ndarray, found: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """How far numbers are from the expected ones, and how large those are, :data:`_AT_ONCE` of them at a time.

    Args:
        expected: Finite numbers.
        found: As many; what is not finite among them gives NaN or infinity.
    """
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    flat, others = expected.reshape(-1), found.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        with np.errstate(invalid="ignore"):
            errors = np.abs(np.subtract(flat[block], others[block], dtype=wide))
        yield errors, np.abs(flat[block])


def are_steps_apart(expected: Any, found: Any) -> bool:
    """Whether two quantized tensors differ by a step at most, in no more elements than rounding otherwise moves."""
    expected, found = np.asarray(expected), np.asarray(found)
    quantized = expected.dtype.kind in "iu" and expected.dtype.itemsize <= _MOST_STEP_BYTES
    if not quantized or expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    apart = np.abs(expected.astype(np.int32) - found)
    return bool(apart.max(initial=0) <= 1 and np.count_nonzero(apart) <= max(1, _STEPS_SHARE * apart.size))
