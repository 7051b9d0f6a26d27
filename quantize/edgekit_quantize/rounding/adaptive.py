"""Rounds the weights of a plan's layers adaptively, from a second walk over the samples."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.moments import Moments, row_length, rows_of, taken_rows
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.placement import Plan
from edgekit_quantize.rounding.adaround import adaptive_rounding

LONGEST_ROW = 1024
"""Layers with more inputs than this to an output are rounded to nearest: their covariance takes too much room,
and the errors of a sum of many terms even out."""


def adaptively_rounded(
    model: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    feeds: Iterable[Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Integers for the weights of every quantized layer that is one matrix product, by the layer's name.

    Args:
        model: The prepared float model that the plan was made for.
        plan: What is quantized.
        tensors: Statistics of the layers' inputs, with how they are smoothed.
        feeds: Samples.
    """
    readers: dict[str, dict[Hashable, list[Layer]]] = {}
    moments: dict[str, Moments] = {}
    for layer in plan.layers:
        length = row_length(layer)
        if length is not None and length <= LONGEST_ROW:
            alike = readers.setdefault(layer.data.name or "", {}).setdefault(taken_rows(layer), [])
            moments[layer.name] = moments[alike[0].name] if alike else Moments(length)
            alike.append(layer)

    def take(name: str, array: np.ndarray) -> None:
        smoothing = tensors[name].smoothing
        smooth = array if smoothing is None else array / smoothing.along(array.ndim)
        for layer, *_ in readers[name].values():
            moments[layer.name].update(rows_of(layer, smooth))

    observe(model, readers.keys(), feeds, take)
    chosen = {}
    for name, found in readers.items():
        for layer in itertools.chain(*found.values()):
            smoothing = tensors[name].smoothing
            weights = layer.weights() if smoothing is None else smoothing.into(layer)
            params = plan.weight_params(layer, weights, tensors, name)
            by_output = weights.reshape(len(weights), -1) if layer.channel_axis == 0 else weights.T
            integers = adaptive_rounding(by_output, params, moments[layer.name].covariance)
            chosen[layer.name] = (integers if layer.channel_axis == 0 else integers.T).reshape(weights.shape)
    return chosen
