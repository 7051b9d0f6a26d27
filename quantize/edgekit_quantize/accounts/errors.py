"""Estimates the error that quantizing each layer adds, from the statistics of one pass.

For a layer with weights ``W`` and inputs ``x`` the power of the error of one output is, with independent errors,
``sum_k (W~ - W)_k^2 var(x_k) + sum_k W_k^2 e^2`` where ``e^2`` is the mean squared error of the quantized inputs. The
power of the output is ``sum_k W_k^2 E[x_k^2]``. The ratio is the layer's own signal-to-noise ratio; Nagel et al., A
White Paper on Neural Network Quantization (2021), section 3.4, orders layers by such a measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from edgekit.comparison.numbers.metrics import decibels
from edgekit_quantize.calibration.activations import activation_params
from edgekit_quantize.calibration.ranges import squared_error
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import integer
from edgekit_quantize.integers.qparams import QParams, sum_of_squares
from edgekit_quantize.placement import Plan


@dataclass(frozen=True)
class LayerError:
    """The error that quantizing a layer adds to its output, without errors of other layers."""

    layer: str
    kind: str
    source: str
    """The name of the layer's input."""
    sqnr_db: float
    """Power of the output over that of the error that quantized weights and inputs add, in decibels."""
    weights_db: float
    """The ratio of :attr:`sqnr_db` with only the weights quantized."""
    inputs_db: float
    """The ratio of :attr:`sqnr_db` with only the inputs quantized."""
    low: float
    high: float
    """The highest input over the samples; ``low`` is the lowest."""
    range_low: float
    range_high: float
    """The upper end of the range that the integers cover; ``range_low`` is the lower end."""
    outliers: float
    """Largest magnitude of the inputs over their root mean square."""


def layer_errors(plan: Plan, tensors: Mapping[str, TensorStatistics]) -> list[LayerError]:
    """The error of every layer that the plan quantizes, largest error first."""
    errors = []
    for layer in plan.layers:
        source = layer.data.name or ""
        tensor = tensors[plan.range_from.get(source, source)]
        errors.append(_layer_error(layer, tensor, tensors, plan))
    return sorted(errors, key=lambda error: error.sqnr_db)


def by_error_for_cost(found: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Layers with their costs, the one with the largest error per cost first.

    Each layer that goes back to float adds its cost and removes its error: this is the order in which the fractional
    knapsack problem is solved.

    Args:
        found: The name of each layer, its signal-to-noise ratio in dB, and its cost in float, which is above 0.
    """
    in_order = sorted(found, key=lambda each: each[1] + 10 * math.log10(each[2]))
    return {name: cost for name, _, cost in in_order}


def _layer_error(
    layer: Layer, ranged: TensorStatistics, tensors: Mapping[str, TensorStatistics], plan: Plan
) -> LayerError:
    tensor = tensors.get(layer.data.name or "", ranged)
    weights = (layer.weights() if tensor.smoothing is None else tensor.smoothing.into(layer)).astype(np.float64)
    rounded = plan.weight_params(layer, weights, tensors, layer.data.name or "").rounded(weights)
    source = layer.data.name or ""
    rule = plan.rule(plan.range_from.get(source, source))
    params = activation_params(ranged, plan.settings.preparation, rule)
    noise = squared_error(ranged.histogram, params)
    channels = tensor.channels.get(layer.input_axis)
    histogram = ranged.histogram
    power = histogram.sum_of_squares / max(histogram.total, 1)
    if channels is not None and channels.count:
        mean_square = channels.mean_square
        variance = np.maximum(mean_square - channels.mean**2, 0.0)
    else:
        mean_square = variance = np.full(1, power)
    output = _power(layer, weights, mean_square)
    from_weights = _power(layer, rounded - weights, variance)
    from_inputs = noise * float(np.sum(weights**2))
    low = (params.dtype.low - float(params.zero_point)) * float(params.scale)
    high = (params.dtype.high - float(params.zero_point)) * float(params.scale)
    peak = max(-histogram.low, histogram.high) if not histogram.is_empty else 0.0
    return LayerError(
        layer.name,
        layer.kind,
        layer.data.name or "",
        decibels(output, from_weights + from_inputs),
        decibels(output, from_weights),
        decibels(output, from_inputs),
        histogram.low,
        histogram.high,
        low,
        high,
        peak / math.sqrt(power) if power else 0.0,
    )


def stored_db(layer: Layer, params: QParams, tensor: TensorStatistics | None) -> float:
    """Power of a layer's output over that of the error that its rounded weights add, in decibels.

    Args:
        layer: A layer that computes in float.
        params: The parameters of its stored weights.
        tensor: Statistics of its input; if those of its channels are missing, the powers of the weights are compared.
    """
    channels = tensor.channels.get(layer.input_axis) if tensor is not None else None
    if tensor is None or channels is None or not channels.count:
        weights = layer.weights()
        return decibels(sum_of_squares(weights), params.squared_error(weights))
    weights = layer.weights().astype(np.float64)
    error = params.rounded(weights) - weights
    factors = np.float64(1.0) if tensor.smoothing is None else tensor.smoothing.factors.astype(np.float64) ** 2
    variance = np.maximum(channels.mean_square - channels.mean**2, 0.0)
    return decibels(_power(layer, weights, channels.mean_square * factors), _power(layer, error, variance * factors))


def _power(layer: Layer, weights: np.ndarray, inputs: np.ndarray) -> float:
    """``sum W^2 inputs`` over all outputs, where ``inputs`` has one entry per input channel, or one in total."""
    squares = weights**2
    if inputs.size == 1:
        return float(squares.sum() * inputs[0])
    if layer.kind in {"Conv", "DepthwiseConv"}:
        groups = integer(layer.node, "group", 1)
        summed = squares.sum(axis=tuple(range(2, squares.ndim))).reshape(groups, -1, squares.shape[1])
        return float(np.einsum("gnc,gc->", summed, inputs.reshape(groups, -1)))
    if layer.kind == "ConvTranspose":
        return float(squares.reshape(len(squares), -1).sum(1) @ inputs)
    if squares.ndim == 2 and layer.data_index == 0:
        per_input = squares.sum(axis=layer.channel_axis)
        return float(per_input @ inputs)
    return float(squares.sum() * inputs.mean())
