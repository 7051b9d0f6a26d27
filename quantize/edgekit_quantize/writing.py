"""Writes one candidate: a copy of the prepared model, quantized as settings and statistics say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgekit_quantize.bias_correction import correction, input_axis, through
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.dynamic import DynamicWriter
from edgekit_quantize.dynamic_lstm import quantize_lstms
from edgekit_quantize.graph import (
    add_initializer,
    constant,
    drop_unused_initializers,
    is_standard,
    only_consumer,
)
from edgekit_quantize.layers import Layer
from edgekit_quantize.placement import Plan, Settings, place
from edgekit_quantize.prepare.opset import upgraded
from edgekit_quantize.prepare.rescale import add_to_bias, set_weights
from edgekit_quantize.qdq import QDQWriter
from edgekit_quantize.qparams import TYPES, QParams
from edgekit_quantize.ranges import AROUND_ZERO, MOST_LOST, RULES, make, squared_error
from edgekit_quantize.smoothquant import Smoothing
from edgekit_quantize.stored import (
    BLOCKED_OPSET,
    FEWEST,
    RECURRENT,
    StoredWeights,
    layer_params,
    recurrent_weights,
    stored_form,
    tables,
)
from edgekit_quantize.weights import symmetric_weights
from edgekit_quantize.zero_points import shift_of, taken_off


@dataclass
class Written:
    """A quantized model and what was done to it."""

    model: ir.Model
    quantized: list[str] = field(default_factory=list)
    """Layers that compute with integers."""
    stored: list[str] = field(default_factory=list)
    """Layers and tables whose weights are stored as integers."""
    kept_float: dict[str, str] = field(default_factory=dict)
    """Layers that stay float, and why."""


Rounding = Mapping[str, np.ndarray]
"""Integers that were chosen for layers by name, instead of rounding to nearest."""


def write(
    prepared: ir.Model,
    settings: Settings,
    tensors: Mapping[str, TensorStatistics],
    keep_float: Collection[str] = (),
    rounding: Rounding | None = None,
) -> Written:
    """Quantize a copy of ``prepared``.

    Args:
        prepared: The prepared float model; it is not changed.
        settings: What to quantize, and how.
        tensors: Statistics of the tensors that the settings quantize; may be empty where only weights are stored.
        keep_float: Names of layers that must compute in float.
        rounding: Integers for layers whose weights were rounded with more care.
    """
    model = prepared.clone()
    if settings.block:
        model = upgraded(model, BLOCKED_OPSET)
    plan = place(model.graph, settings, keep_float)
    params = {name: activation_params(tensors[name], settings, plan.rule(name)) for name in plan.observed()}
    writer = _Writer(model, plan, params, tensors, rounding or {})
    writer.run()
    drop_unused_initializers(model.graph)
    return Written(
        model,
        writer.quantized,
        [layer.name for layer in plan.stored],
        dict(plan.kept_float),
    )


def activation_params(tensor: TensorStatistics, settings: Settings, rule: str) -> QParams:
    """Scale and zero point of an activation: by a rule, where it has no scale of its own for every channel."""
    if tensor.params is not None:
        return tensor.params
    dtype = TYPES[settings.activations]
    low, high = RULES[rule](tensor.histogram, dtype, settings.symmetric_activations)
    params = make(low, high, dtype, settings.symmetric_activations)
    if rule == AROUND_ZERO:
        around_zero = make(low, high, TYPES["int8"], symmetric_range=True)
        if squared_error(tensor.histogram, around_zero) <= MOST_LOST * squared_error(tensor.histogram, params):
            return around_zero
    return params


def _is_shortcut(node: ir.Node, graph: ir.Graph) -> bool:
    """Whether the node adds two activations, in the main graph itself: branches capture no DequantizeLinear."""
    return node.graph is graph and is_standard(node, "Add") and all(constant(value) is None for value in node.inputs)


class _Writer:
    def __init__(
        self,
        model: ir.Model,
        plan: Plan,
        params: Mapping[str, QParams],
        tensors: Mapping[str, TensorStatistics],
        rounding: Rounding,
    ) -> None:
        self._model, self._graph = model, model.graph
        self._plan, self._settings = plan, plan.settings
        self._params, self._tensors, self._rounding = params, tensors, rounding
        self._qdq = QDQWriter(model.graph)
        self._stored = StoredWeights(model, plan.settings.weights_form)
        self._forms = {
            layer.name: stored_form(layer, plan.settings.weights, plan.settings.block) for layer in plan.stored
        }
        self.quantized = [layer.name for layer in (*plan.layers, *plan.dynamic)]

    def run(self) -> None:
        source = {layer.name: layer.data.name or "" for layer in self._plan.layers}
        for layer in self._plan.layers:
            smoothing = self._smoothing(source[layer.name])
            if smoothing is not None:
                set_weights(self._graph, layer, smoothing.into(layer))
        self._activations()
        for layer in self._plan.layers:
            self._quantized(layer, source[layer.name])
        for layer in self._plan.stored:
            self._only_stored(layer)
        dynamic = DynamicWriter(self._graph)
        for layer in self._plan.dynamic:
            dynamic.multiply(layer)
        if self._settings.layers.get("Gather") == "weights":
            for node in list(tables(self._model)):
                table = constant(node.inputs[0])
                if table is not None:
                    self._stored.table(node, symmetric_weights(table, TYPES["int8"], 1))
        if self._settings.layers.get("LSTM") == "dynamic":
            self.quantized += quantize_lstms(self._model)
        if any(self._settings.layers.get(kind) == "weights" for kind in RECURRENT):
            for node, index, params in list(recurrent_weights(self._model)):
                value = node.inputs[index]
                if value is not None and self._settings.layers.get(node.op_type) == "weights":
                    node.replace_input_with(index, self._stored.store(value, params, folded=True))

    def _activations(self) -> None:
        plan = self._plan
        uses = {name: tuple(value.uses()) for name, value in plan.tensors.items()}
        readers = {id(layer.node) for layer in plan.layers} | {id(node) for node in (*plan.products, *plan.moved)}
        for name, value in plan.tensors.items():
            params = self._params[plan.range_from.get(name, name)]
            smoothing = self._smoothing(name)
            quantized = self._qdq.activation(value, params, smoothing, shifted=name in plan.shifted)
            for node, index in uses[name]:
                if name in plan.whole or id(node) in readers:
                    node.replace_input_with(index, quantized)
                elif name in plan.shortcuts and smoothing is None and _is_shortcut(node, self._graph):
                    node.replace_input_with(index, self._qdq.itself(value))

    def _smoothing(self, name: str) -> Smoothing | None:
        tensor = self._tensors.get(name)
        return tensor.smoothing if tensor is not None else None

    def _quantized(self, layer: Layer, source: str) -> None:
        weights = layer.weights()
        params = symmetric_weights(weights, TYPES[self._settings.weights], layer.channel_axis)
        integers = self._rounding.get(layer.name)
        if integers is None:
            integers = params.quantize(weights)
        self._correct(layer, params, integers, source)
        shift = shift_of(self._params[source]) if source in self._plan.shifted else 0.0
        if shift:
            add_to_bias(self._graph, layer, taken_off(layer, params.dequantize(integers), shift))
        dequantized = self._qdq.weight(layer.weight, params, integers)
        bias = layer.bias
        layer.node.replace_input_with(layer.weight_index, dequantized)
        if self._settings.bias == "int32" and bias is not None:
            activation = self._params[self._plan.range_from.get(source, source)]
            integer = self._qdq.bias(bias, activation.scale * params.scale)
            if integer is not None:
                layer.node.replace_input_with(2, integer)
        if self._settings.separate_bias and layer.kind == "MatMul":
            self._separate_bias(layer)

    def _only_stored(self, layer: Layer) -> None:
        weights = layer.weights()
        if weights.size < FEWEST:
            self._plan.kept_float[layer.name] = "its weights are few"
            return
        params = layer_params(layer, *self._forms[layer.name])
        integers = params.quantize(weights)
        self._correct(layer, params, integers, layer.data.name or "", stored=True)
        layer.node.replace_input_with(layer.weight_index, self._stored.store(layer.weight, params, integers))

    def _correct(
        self, layer: Layer, params: QParams, integers: np.ndarray, source: str, *, stored: bool = False
    ) -> None:
        tensor = self._tensors.get(source)
        channels = tensor.channels.get(input_axis(layer)) if tensor is not None else None
        if channels is None or not channels.count:
            return
        mean = channels.mean
        if tensor is not None and tensor.smoothing is not None and stored:
            mean = mean * tensor.smoothing.factors
        rounded = params.dequantize(integers)
        shift = correction(layer, rounded, mean)
        if shift is None:
            return
        if tensor is not None and tensor.rounding is not None and not stored:
            added = through(layer, rounded, tensor.rounding)
            shift = shift if added is None else shift - added
        add_to_bias(self._graph, layer, shift)

    def _separate_bias(self, layer: Layer) -> None:
        reader = only_consumer(layer.output)
        if reader is None or not is_standard(reader, "Add"):
            return
        index = 1 if reader.inputs[0] is layer.output else 0
        value = reader.inputs[index]
        bias = constant(value)
        rank = len(layer.output.shape) if layer.output.shape is not None else 0
        if value is None or bias is None or bias.ndim > 2 or rank < 3:
            return
        name = self._qdq.names.fresh(f"{value.name}_apart")
        reader.replace_input_with(index, add_initializer(self._graph, name, bias.reshape(1, 1, -1)))
