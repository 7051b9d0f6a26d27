"""The accuracy that wrong outputs reach on golden samples by chance: a floor below it proves nothing.

A wrong device may output zeros, the same values for every sample, or the outputs of another sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from edgekit.comparison.numbers.metrics import decibels

AS_GOOD_AS_RIGHT_DB = 25.0
"""An output with at least this SQNR is not wrong: a correct device with half-precision arithmetic is no nearer."""


def sqnr_of_wrong(right: Sequence[np.ndarray]) -> float:
    """The greatest SQNR in dB that wrong outputs reach over all samples; at least 0, the SQNR of zeros.

    Args:
        right: The output of each sample, numbers of any type.
    """
    arrays = [np.nan_to_num(array.astype(np.float64), posinf=0.0, neginf=0.0) for array in right]
    scale = max((float(np.abs(array).max(initial=0.0)) for array in arrays), default=0.0)
    if scale == 0.0:
        return 0.0
    arrays = [array / scale for array in arrays]  # squares stay in range
    signals = [float(np.square(array).sum()) for array in arrays]
    reached = [0.0]
    for answers in _wrong_answers(arrays):
        noises = []
        for array, signal, wrong in zip(arrays, signals, answers, strict=True):
            noise = min((float(np.square(array - one).sum()) for one in wrong), default=signal)
            noises.append(signal if decibels(signal, noise) >= AS_GOOD_AS_RIGHT_DB else noise)
        reached.append(decibels(sum(signals), sum(noises)))
    return max(reached)


def mismatch_of_wrong(right: Sequence[np.ndarray]) -> float | None:
    """The least share of unequal elements of wrong outputs over all samples; None if no wrong output differs.

    Args:
        right: The output of each sample, of a type other than floating point.
    """
    elements = sum(array.size for array in right)
    shares = []
    for answers in ([[_zeros(array)] for array in right], [[_commonest(array)] for array in right], _others(right)):
        wrong = 0
        for array, given in zip(right, answers, strict=True):
            counts = [int(np.count_nonzero(array != one)) for one in (*given, _zeros(array))]
            wrong += min((count for count in counts[:-1] if count), default=counts[-1])
        shares.append(wrong / elements if elements else 0.0)
    return min((share for share in shares if share > 0), default=None)


def _wrong_answers(arrays: Sequence[np.ndarray]) -> Iterable[list[list[np.ndarray]]]:
    """For each way to be wrong: the wrong outputs for each sample."""
    yield [[np.full_like(array, array.mean())] if array.size > 1 else [] for array in arrays]
    alike = [[other for other in arrays if other.shape == array.shape] for array in arrays]
    yield [[np.mean(same, axis=0)] if len(same) > 1 else [] for same in alike]
    yield _others(arrays)


def _others(arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """For each sample, the outputs of the other samples that have the same shape."""
    return [
        [other for place, other in enumerate(arrays) if place != position and other.shape == array.shape]
        for position, array in enumerate(arrays)
    ]


def _zeros(array: np.ndarray) -> np.ndarray:
    return np.full(array.shape, "") if array.dtype.kind in "OU" else np.zeros_like(array)


def _commonest(array: np.ndarray) -> np.ndarray:
    if not array.size:
        return array
    values, counts = np.unique(array.astype(np.str_) if array.dtype.kind == "O" else array, return_counts=True)
    return np.full(array.shape, values[counts.argmax()])
