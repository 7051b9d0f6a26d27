"""What counts as the same number in two forms of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SENSITIVE = {"Log": (0,), "Sqrt": (0,), "Div": (1,), "Mod": (0, 1), "Pow": (0, 1), "Reciprocal": (0,)}
"""Operators that magnify a small difference, and the positions of the inputs where they do."""

_EACH = 32
"""How much any number may differ, in units in the last place of the largest number, even if ``each`` is asked for."""

_AT_ONCE = 1 << 15
"""Numbers whose differences are computed at once, in double precision: they fit into the caches of a processor."""

_MOST_STEP_BYTES = 2
"""Most bytes of an element of a quantized tensor, which has 8 or 16 bits."""
_STEPS_SHARE = 1 / 2
"""The share of a quantized tensor's elements that may be one step off: nearly half of the averages of four numbers that
are 0 or 255 lie midway between two steps."""


def compare(name: str, expected: Any, found: Any, *, each: bool = False, tolerance: float = 1) -> str | None:
    """In a few words, what differs between two outputs; None if nothing does.

    Floating-point values may differ by the square root of their type's epsilon, relative to the largest value: half of
    the digits, which is far more than reordered arithmetic changes and far less than a wrong rewrite does.

    Args:
        name: What to call the output.
        expected: An array, or a list of arrays if the output is a sequence.
        found: The output of the changed model; None if it has no such output.
        each: Whether differences beyond a few units in the last place of the largest number are measured relative to
            the number itself, not to the largest.
        tolerance: The share of these limits that is allowed.
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
    """Absolute differences, and absolute values of the expected numbers, for :data:`_AT_ONCE` numbers at a time.

    Args:
        expected: Finite numbers.
        found: Numbers of the same count; the difference of one that is not finite is NaN or infinity.
    """
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    flat, others = expected.reshape(-1), found.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        with np.errstate(invalid="ignore"):
            errors = np.abs(np.subtract(flat[block], others[block], dtype=wide))
        yield errors, np.abs(flat[block])


def are_steps_apart(expected: Any, found: Any) -> bool:
    """Whether two quantized tensors differ by at most one step, in at most half of their elements, or in one."""
    expected, found = np.asarray(expected), np.asarray(found)
    quantized = expected.dtype.kind in "iu" and expected.dtype.itemsize <= _MOST_STEP_BYTES
    if not quantized or expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    apart = np.abs(expected.astype(np.int32) - found)
    return bool(apart.max(initial=0) <= 1 and np.count_nonzero(apart) <= max(1, _STEPS_SHARE * apart.size))
