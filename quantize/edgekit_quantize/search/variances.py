"""How much the float model's outputs vary between samples, and the powers of errors to compare with that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgekit.comparison.numbers.columns import SAME
from edgekit_quantize.calibration.references import References


def variances(references: References) -> dict[str, float]:
    """How much each of the float model's outputs varies between samples (:func:`variances_of`)."""
    return variances_of(reference.outputs for reference in references.answers())


def variances_of(answers: Iterable[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """How much each float output varies between samples: ``sum (y - mean)^2``.

    The mean is taken for each element over the samples, or over all elements if there is one sample or if shapes
    differ. For an output that is the same for all samples, the sum of its squares is returned instead, as its constant
    value is its only information. Numbers that are not finite are left out.
    """
    outputs: dict[str, list[np.ndarray]] = {}
    for answer in answers:
        for name, output in answer.items():
            if output.dtype.kind == "f":
                outputs.setdefault(name, []).append(output)
    return {name: _variance(found) for name, found in outputs.items()}


def powers(expected: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """The powers of the signal and of the error, summed over the finite elements of ``expected``.

    The error is infinite if the other elements of ``found`` are finite, or different ones are not.
    """
    finite = np.isfinite(expected)
    wide = np.where(finite, expected, 0).astype(np.float64)
    signal = float(np.sum(wide**2))
    if found.shape != expected.shape:
        return signal, signal
    if not np.array_equal(np.isfinite(found), finite):
        return signal, math.inf
    return signal, float(np.sum((np.where(finite, found, 0).astype(np.float64) - wide) ** 2))


def _variance(outputs: Sequence[np.ndarray]) -> float:
    finite = [np.isfinite(output) for output in outputs]
    wide = [np.where(known, output, 0).astype(np.float64) for known, output in zip(finite, outputs, strict=True)]
    power = sum(float(np.sum(output**2)) for output in wide)
    if len(outputs) > 1 and len({output.shape for output in outputs}) == 1:
        mean = sum(wide) / np.maximum(sum(known.astype(int) for known in finite), 1)
    else:
        mean = np.float64(sum(output.sum() for output in wide) / max(sum(known.sum() for known in finite), 1))
    variance = sum(float(np.sum(((output - mean) ** 2)[known])) for known, output in zip(finite, wide, strict=True))
    return variance if variance > SAME * power else power
