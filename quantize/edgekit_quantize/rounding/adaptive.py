"""Rounds the weights of a plan's layers adaptively, from a second walk over the samples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.moments import LONGEST_ROW, Moments, row_length, rows_of, taken_rows
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import home
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.integers.stored_weights import FEWEST, layer_params, stored_form, stored_name
from edgekit_quantize.placement import Plan
from edgekit_quantize.rounding.adaround import adaptive_rounding


@dataclass(frozen=True)
class _Rounded:
    """A layer whose weights are to be rounded."""

    name: str
    """What its integers are called."""
    layer: Layer
    params: QParams
    smoothing: Smoothing | None
    """What its input is divided by, and its weights are multiplied with."""


def adaptively_rounded(
    model: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    feeds: Iterable[Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Integers for the weights of every layer of the plan that is one matrix product.

    Args:
        model: The prepared float model that the plan was made for.
        plan: What is quantized, and what is stored.
        tensors: Statistics of the layers' inputs, with how they are smoothed.
        feeds: Samples.

    Returns:
        By the layer's name; where its weights are stored, by
        :func:`~edgekit_quantize.integers.stored_weights.stored_name`.
    """
    readers: dict[str, dict[Hashable, list[_Rounded]]] = {}
    moments: dict[str, Moments] = {}
    for each in (*_quantized(plan, tensors), *_stored(model, plan)):
        length = row_length(each.layer)
        if length is not None and length <= LONGEST_ROW:
            kind = taken_rows(each.layer), each.smoothing is None
            alike = readers.setdefault(each.layer.data.name or "", {}).setdefault(kind, [])
            moments[each.name] = moments[alike[0].name] if alike else Moments(length)
            alike.append(each)

    def take(name: str, array: np.ndarray) -> None:
        for each, *_ in readers[name].values():
            smooth = array if each.smoothing is None else array / each.smoothing.along(array.ndim)
            moments[each.name].update(rows_of(each.layer, smooth))

    observe(model, readers.keys(), feeds, take)
    found = (each for alike in readers.values() for some in alike.values() for each in some)
    return {each.name: _integers(each, moments[each.name].covariance) for each in found if moments[each.name].count}


def _quantized(plan: Plan, tensors: Mapping[str, TensorStatistics]) -> Iterator[_Rounded]:
    for layer in plan.layers:
        source = layer.data.name or ""
        smoothing = tensors[source].smoothing
        weights = layer.weights() if smoothing is None else smoothing.into(layer)
        yield _Rounded(layer.name, layer, plan.weight_params(layer, weights, tensors, source), smoothing)


def _stored(model: ir.Model, plan: Plan) -> Iterator[_Rounded]:
    """Layers whose weights get a scale an output channel; within a channel errors would be in different steps."""
    observable = reachable(model.graph)
    for layer in plan.stored:
        dtype, block = stored_form(layer, plan.settings.weights, plan.settings.block)
        if not block and layer.weights().size >= FEWEST and home(layer.node) in observable:
            yield _Rounded(stored_name(layer), layer, layer_params(layer, dtype, block), None)


def _integers(each: _Rounded, covariance: np.ndarray) -> np.ndarray:
    """The weights' integers, in the weights' shape."""
    layer = each.layer
    weights = layer.weights() if each.smoothing is None else each.smoothing.into(layer)
    by_output = weights.reshape(len(weights), -1) if layer.channel_axis == 0 else weights.T
    integers = adaptive_rounding(by_output, each.params, covariance)
    return (integers if layer.channel_axis == 0 else integers.T).reshape(weights.shape)
