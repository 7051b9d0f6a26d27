"""Scale and zero point of an activation, from what calibration counted."""

from __future__ import annotations

from edgekit_quantize.calibration.ranges import AROUND_ZERO, MOST_LOST, RULES, make, squared_error
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.settings import Preparation


def activation_params(tensor: TensorStatistics, preparation: Preparation, rule: str) -> QParams:
    """Scale and zero point of an activation: by a rule, where it has no scale of its own for every channel."""
    if tensor.params is not None:
        return tensor.params
    dtype = TYPES[preparation.activations]
    low, high = RULES[rule](tensor.histogram, dtype, preparation.symmetric_activations)
    params = make(low, high, dtype, preparation.symmetric_activations)
    if rule == AROUND_ZERO:
        around_zero = make(low, high, TYPES["int8"], symmetric_range=True)
        if squared_error(tensor.histogram, around_zero) <= MOST_LOST * squared_error(tensor.histogram, params):
            return around_zero
    return params
