"""What the rounding of an activation adds to each of its channels on average.

A channel whose numbers crowd together, like the small negative ones that HardSwish gives, is rounded to one side. The
expected error of an output has a part ``W~ (E[x~] - E[x])`` from that, which bias correction takes off as well (Nagel
et al., Data-Free Quantization through Weight Equalization and Bias Correction, ICCV 2019, section 4.2).
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
"""The number of values of a larger array that are rounded, about, evenly spread over its rows of channels."""


def measure_rounding(
    model: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    feeds: Iterable[Mapping[str, np.ndarray]],
) -> None:
    """Note the mean rounding error of every channel of the plan's activations in ``tensors``.

    Args:
        model: The prepared float model that the plan was made for.
        plan: What is quantized.
        tensors: Statistics of the activations; those that layers read along one axis get ``rounding``.
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
