"""Measures the mean rounding error of each channel of an activation.

A channel whose numbers lie close together, like the small negative outputs of HardSwish, is rounded to one side. This
adds ``W~ (E[x~] - E[x])`` to the expected error of an output, which bias correction subtracts as well (Nagel et al.,
Data-Free Quantization through Weight Equalization and Bias Correction, ICCV 2019, section 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.activations import activation_params
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.histogram import thinning
from edgekit_quantize.calibration.statistics import ChannelStatistics, TensorStatistics
from edgekit_quantize.placement import Plan

SAMPLED = 2**15
"""About how many values of an array are rounded at most, evenly spread over its rows of channels."""


def measure_rounding(
    model: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    feeds: Iterable[Mapping[str, np.ndarray]],
) -> None:
    """Record the mean rounding error of every channel of the plan's activations in ``tensors``.

    Args:
        model: The prepared float model that the plan was made for.
        plan: Which layers are quantized.
        tensors: Statistics of the activations; ``rounding`` is set where all layers read an activation along one axis.
        feeds: Samples.
    """
    axes: dict[str, set[int]] = {}
    for layer in plan.layers:
        axes.setdefault(layer.data.name or "", set()).add(layer.input_axis)
    found = {name: ChannelStatistics() for name, along in axes.items() if len(along) == 1}
    params = {}
    for name in found:
        root = plan.range_from.get(name, name)
        params[name] = activation_params(tensors[root], plan.settings.preparation, plan.rule(root))

    def take(name: str, array: np.ndarray) -> None:
        smoothing = tensors[name].smoothing
        (axis,) = axes[name]
        rows = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
        some = rows[:: thinning(array.shape, SAMPLED)]
        smooth = some if smoothing is None else some / smoothing.factors
        found[name].update(params[name].rounded(smooth) - smooth, -1)

    observe(model, found.keys(), feeds, take)
    for name, statistics in found.items():
        if statistics.count:
            tensors[name].rounding = statistics.mean
