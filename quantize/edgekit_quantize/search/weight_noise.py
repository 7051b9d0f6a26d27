"""What rounding the weights of each layer becomes at a model's outputs, by executing it with those weights changed.

Outputs are those of :mod:`edgekit_quantize.search.output_noise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.references import References
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import home, initializers
from edgekit_quantize.graph.session import session
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.integers.stored_weights import FEWEST, layer_params, stored_form, stored_name
from edgekit_quantize.placement import Plan
from edgekit_quantize.rounding.bias_correction import correction
from edgekit_quantize.search.output_noise import noises_of, outputs_before_swallowing

Changed = Mapping[str, np.ndarray]
"""What constants are instead, by name."""


class FedModel:
    """The model with weights as inputs, so that one session executes it with any of them changed.

    Args:
        prepared: The prepared float model; it is not changed.
        names: The constants that are fed.
    """

    def __init__(self, prepared: ir.Model, names: Iterable[str]) -> None:
        model = prepared.clone()
        self._weights: dict[str, np.ndarray] = {}
        constants = initializers(model.graph)
        for name in names:
            value = constants[name]
            home(value).initializers.pop(name)
            if value.const_value is None:
                raise ValueError(f"{name!r} is not constant")
            self._weights[name] = value.const_value.numpy()
            value.const_value = None
            model.graph.inputs.append(value)
        self._outputs = outputs_before_swallowing(model.graph)
        self._session = session(model)

    def run(self, feeds: Mapping[str, np.ndarray], changed: Changed) -> dict[str, np.ndarray]:
        """Outputs by name, with some weights changed."""
        found = self._session.run(self._outputs, {**feeds, **self._weights, **changed})
        return dict(zip(self._outputs, found, strict=True))


def noise_of_weights(
    prepared: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    rounding: Mapping[str, np.ndarray],
    references: References,
    done: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """What rounding the weights of each layer of a plan adds to the outputs: power of the error over their variance.

    Args:
        prepared: The prepared float model that the plan was made for.
        plan: What is quantized, and what is stored.
        tensors: What calibration told of the activations.
        rounding: Integers that were chosen for layers' weights; those of others are the nearest.
        references: Samples.
        done: Told how many layers of how many are measured.

    Returns:
        By the layer's name; without those that share their weights.
    """
    rounded = {each.layer.name: each for each in _rounded(prepared, plan, tensors, rounding)}
    fed = FedModel(prepared, sorted({name for each in rounded.values() for name in each.constants}))
    unchanged: Changed = {}
    return noises_of(fed.run, unchanged, {name: each.changed for name, each in rounded.items()}, references, done)


@dataclass(frozen=True)
class _RoundedLayer:
    """A layer whose weights a plan rounds."""

    layer: Layer
    params: QParams
    integers: np.ndarray | None
    """Those that were chosen; None where they are the nearest."""
    tensor: TensorStatistics | None
    """Of what the layer reads."""
    smoothed: bool
    bias: str
    """The name of its constant bias; empty where there is none."""

    @property
    def constants(self) -> list[str]:
        """The names of those that rounding changes."""
        return [self.layer.weight.name or "", *([self.bias] if self.bias else [])]

    def changed(self) -> Changed:
        """Weights as if they had been rounded, and the bias with what is the same for every input taken off."""
        weights = self.layer.weights()
        smoothing = self.tensor.smoothing if self.tensor is not None and self.smoothed else None
        large = weights if smoothing is None else smoothing.into(self.layer)
        rounded = self.params.dequantize(self.params.quantize(large) if self.integers is None else self.integers)
        if smoothing is not None:
            rounded = np.divide(rounded * weights, large, out=np.zeros_like(weights), where=large != 0)
        changed = {self.layer.weight.name or "": rounded.astype(weights.dtype)}
        shift = self._correction(rounded) if self.bias else None
        if shift is not None:
            bias = self.layer.bias
            assert bias is not None
            assert bias.const_value is not None
            changed[self.bias] = (bias.const_value.numpy() + shift).astype(weights.dtype)
        return changed

    def _correction(self, rounded: np.ndarray) -> np.ndarray | None:
        channels = self.tensor.channels.get(self.layer.input_axis) if self.tensor is not None else None
        if self.tensor is None or channels is None or not channels.count:
            return None
        smoothing = self.tensor.smoothing
        mean = channels.mean if smoothing is None else channels.mean * smoothing.factors
        return correction(self.layer, rounded, mean)


def _rounded(
    prepared: ir.Model, plan: Plan, tensors: Mapping[str, TensorStatistics], rounding: Mapping[str, np.ndarray]
) -> Iterator[_RoundedLayer]:
    constants = initializers(prepared.graph)
    inputs = {value.name for value in prepared.graph.inputs}

    def alone(value: ir.Value | None) -> bool:
        name = value.name if value is not None else None
        return name in constants and name not in inputs and constants[name] is value and len(tuple(value.uses())) == 1

    def of(layer: Layer, params: QParams, name: str, *, smoothed: bool) -> _RoundedLayer:
        bias = layer.bias.name or "" if layer.bias is not None and alone(layer.bias) else ""
        tensor = tensors.get(layer.data.name or "")
        return _RoundedLayer(layer, params, rounding.get(name), tensor, smoothed, bias)

    for layer in plan.layers:
        if alone(layer.weight):
            source = layer.data.name or ""
            tensor = tensors.get(source)
            smoothing = tensor.smoothing if tensor is not None else None
            large = layer.weights() if smoothing is None else smoothing.into(layer)
            params = plan.weight_params(layer, large, tensors, source)
            yield of(layer, params, layer.name, smoothed=True)
    for layer in plan.stored:
        if alone(layer.weight) and layer.weights().size >= FEWEST:
            params = layer_params(layer, *stored_form(layer, plan.settings.weights, plan.settings.block))
            yield of(layer, params, stored_name(layer), smoothed=False)
