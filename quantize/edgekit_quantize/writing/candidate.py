"""Writes one candidate: a copy of the prepared model, quantized according to settings and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit.model import node_name
from edgekit_quantize.accounts.account import DYNAMIC, FLOAT, INTEGERS, STORED, LayerAccount
from edgekit_quantize.calibration.activations import activation_params
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer, layer_of
from edgekit_quantize.graph.nodes import (
    Names,
    constant,
    home,
    is_standard,
)
from edgekit_quantize.graph.parameters import add_to_bias, set_weights
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.stored_weights import (
    FEWEST,
    RECURRENT,
    SCALES_WEIGH_MORE,
    layer_params,
    recurrent_name,
    recurrent_weights,
    saves_room,
    stored_name,
    tables,
)
from edgekit_quantize.integers.weights import layer_weights, symmetric_weights
from edgekit_quantize.integers.zero_points import map_taken_off, shift_of, taken_off, takes_shift
from edgekit_quantize.placement import TOO_LARGE, Plan, place
from edgekit_quantize.prepare.opset import upgraded
from edgekit_quantize.rounding.bias_correction import correction, through
from edgekit_quantize.settings import Settings
from edgekit_quantize.smoothing.folding import fold_factors
from edgekit_quantize.writing.bias_apart import set_bias_apart
from edgekit_quantize.writing.dynamic import DynamicWriter
from edgekit_quantize.writing.dynamic_lstm import quantize_lstms
from edgekit_quantize.writing.float16 import halve_weights
from edgekit_quantize.writing.products_apart import set_products_apart
from edgekit_quantize.writing.qdq import QDQWriter
from edgekit_quantize.writing.recurrent_steps import StepProduct, write_steps
from edgekit_quantize.writing.shift_maps import add_map
from edgekit_quantize.writing.stored import BLOCKED_OPSET, StoredWeights
from edgekit_quantize.writing.written import Written

ADAPTIVELY = "rounded adaptively"
BY_STEPS = "step by step"
Rounding = Mapping[str, np.ndarray]
"""Integers for the weights of layers, by name, that are used instead of rounding to nearest."""


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
        tensors: Statistics of the tensors that the settings quantize; may be empty if weights are only stored.
        keep_float: Names of layers that must compute in float.
        rounding: Integers for layers whose weights were rounded adaptively.
    """
    model = prepared.clone()
    if settings.block or settings.has_wide_activations:
        model = upgraded(model, BLOCKED_OPSET)
    plan = place(model.graph, settings, keep_float, tensors or None)
    preparation = settings.preparation
    params = {name: activation_params(tensors[name], preparation, plan.rule(name)) for name in plan.observed()}
    writer = _Writer(model, plan, params, tensors, rounding or {}, keep_float)
    writer.run()
    drop_unused_initializers(model.graph)
    if settings.float_weights == "float16":
        halve_weights(model)
    return Written(model, writer.accounts, keep_float, writer.rounded_adaptively, writer.restricted)


def _is_shortcut(node: ir.Node) -> bool:
    """Whether the node adds two activations."""
    return is_standard(node, "Add") and all(constant(value) is None for value in node.inputs)


class _Writer:
    def __init__(
        self,
        model: ir.Model,
        plan: Plan,
        params: Mapping[str, QParams],
        tensors: Mapping[str, TensorStatistics],
        rounding: Rounding,
        keep_float: Collection[str],
    ) -> None:
        self._keep_float = keep_float
        self._model, self._graph = model, model.graph
        self._plan, self._settings = plan, plan.settings
        self._params, self._tensors, self._rounding = params, tensors, rounding
        names = Names(model.graph)
        self._qdq = QDQWriter(names)
        self._stored = StoredWeights(plan.settings.weights_form, names)
        self._dynamic = DynamicWriter(names, sums_in_int16=plan.settings.sums_in_int16)
        self._forms = {layer.name: plan.stored_form(layer) for layer in plan.stored}
        self._readers = Counter((layer.weight, layer.channel_axis) for layer in plan.stored)
        self._shared: Mapping[str, QParams] = {}
        self.accounts: list[LayerAccount] = []
        self.rounded_adaptively: list[str] = []
        self.restricted: dict[str, int] = {}

    def run(self) -> None:
        every_layer = [found for node in self._graph.all_nodes() if (found := layer_of(node)) is not None]
        source = {layer.name: layer.data.name or "" for layer in every_layer}
        for layer in self._plan.layers:
            smoothing = self._smoothing(source[layer.name])
            if smoothing is not None:
                set_weights(self._graph, layer, smoothing.into(layer))
        self._shared = self._shared_params(source)
        self._activations()
        for layer in self._plan.layers:
            how_many = layer.weights().shape[layer.channel_axis]
            self._quantized(layer, source[layer.name])
            self._tell(layer, source, INTEGERS, self._how(layer, source[layer.name], how_many))
        for layer in self._plan.stored:
            self._only_stored(layer, source)
        for layer in self._plan.dynamic:
            weights, params = layer.weights(), self._dynamic.params(layer.weights(), layer.channel_axis)
            self._dynamic.multiply(layer)
            self._tell(layer, source, DYNAMIC, _form(params), weights, params)
        for node in self._plan.products:
            self.accounts.append(LayerAccount(node_name(node), node.op_type, INTEGERS, "of two activations"))
        self._tables()
        for node in self._plan.recurrent:
            self._step_by_step(node)
        self._recurrent()
        fold_factors(self._qdq.divisions, self._qdq.names)
        if self._settings.products_apart:
            tensors = self._plan.tensors
            set_products_apart([(tensors[name], node) for name, node in self._qdq.quantized], self._qdq.names)
        accounted = {account.layer for account in self.accounts}
        for layer in every_layer:
            if layer.name not in accounted:
                self._tell(layer, source, FLOAT, self._plan.kept_float.get(layer.name, ""))

    def _tell(
        self,
        layer: Layer,
        source: Mapping[str, str],
        done: str,
        how: str,
        weights: np.ndarray | None = None,
        params: QParams | None = None,
    ) -> None:
        account = LayerAccount(layer.name, layer.kind, done, how, source[layer.name], weights=weights, params=params)
        self.accounts.append(account)

    def _how(self, layer: Layer, source: str, channels: int) -> str:
        """The methods by which a layer with ``channels`` output channels was quantized."""
        tensor = self._tensors.get(source)
        if tensor is not None and tensor.params is not None:
            parts = ["one range for each channel, by least error"]
        else:
            parts = [f"range by {self._plan.rule(self._plan.range_from.get(source, source))}"]
            if tensor is not None and tensor.smoothing is not None:
                parts.append("smoothed")
        if layer.output.name in self._plan.whole:
            parts.append("output too")
        if layer.name in self.rounded_adaptively:
            parts.append(ADAPTIVELY)
        if layer.name in self.restricted:
            parts.append(f"{self.restricted[layer.name]} of {channels} channels kept from saturation")
        return ", ".join(parts)

    def _tables(self) -> None:
        if self._settings.layers.get("Gather") != "weights":
            return
        for node in list(tables(self._model)):
            table = constant(node.inputs[0])
            if table is not None:
                params = symmetric_weights(table, TYPES["int8"], 1)
                name = node_name(node)
                if not saves_room(table, params, self._settings.float_weights):
                    self.accounts.append(LayerAccount(name, node.op_type, FLOAT, SCALES_WEIGH_MORE))
                    continue
                self._stored.table(node, params)
                account = LayerAccount(name, node.op_type, STORED, _form(params), weights=table, params=params)
                self.accounts.append(account)

    def _step_by_step(self, node: ir.Node) -> None:
        """Write a recurrent node as scans, with its weights stored as integers."""
        weights = {index: constant(node.inputs[index]) for index in (1, 2)}
        products = write_steps(node, self._model.opset_imports[""], self._qdq.names)
        for index, array in weights.items():
            assert array is not None
            name, params = recurrent_name(node, index), symmetric_weights(array, TYPES["int8"], 1)
            in_float = TOO_LARGE if name in self._keep_float else None
            if in_float is None and not saves_room(array, params, self._settings.float_weights):
                in_float = SCALES_WEIGH_MORE
            if in_float is not None:
                self.accounts.append(LayerAccount(name, node.op_type, FLOAT, f"{in_float}; {BY_STEPS}"))
                continue
            rounded = self._chosen(name)
            stored = params.quantize(array) if rounded is None else rounded
            for product in products:
                if product.index == index:
                    self._store_part(product, params, stored)
            how = "; ".join([_form(params), *([] if rounded is None else [ADAPTIVELY]), BY_STEPS])
            account = LayerAccount(name, node.op_type, STORED, how, weights=array, params=params)
            self.accounts.append(account)

    def _store_part(self, product: StepProduct, params: QParams, integers: np.ndarray) -> None:
        """Store the part of a recurrent node's integers that one of its products reads."""
        part = replace(params, scale=params.scale[product.columns], zero_point=params.zero_point[product.columns])
        matrix = np.ascontiguousarray(integers[product.direction, product.columns].T)
        stored = self._stored.store(product.weight, home(product.node), part, matrix)
        product.node.replace_input_with(1, stored)

    def _recurrent(self) -> None:
        if self._settings.layers.get("LSTM") == "dynamic":
            lstms = quantize_lstms(self._model, sums_in_int16=self._settings.sums_in_int16)
            self.accounts += [LayerAccount(name, "LSTM", DYNAMIC, "int8, a scale a channel") for name in lstms]
        if all(self._settings.layers.get(kind) != "weights" for kind in RECURRENT):
            return
        found = list(recurrent_weights(self._model))
        readers = Counter(node.inputs[index] for node, index, _ in found)
        for node, index, params in found:
            value = node.inputs[index]
            if value is not None and self._settings.layers.get(node.op_type) == "weights":
                name = recurrent_name(node, index)
                if name in self._keep_float:
                    self.accounts.append(LayerAccount(name, node.op_type, FLOAT, TOO_LARGE))
                    continue
                array = constant(value)
                if array is None or not saves_room(array, params, self._settings.float_weights):
                    self.accounts.append(LayerAccount(name, node.op_type, FLOAT, SCALES_WEIGH_MORE))
                    continue
                integers = self._chosen(name) if readers[value] == 1 else None  # see _quantized
                how = _form(params) if integers is None else f"{_form(params)}; {ADAPTIVELY}"
                account = LayerAccount(name, node.op_type, STORED, how, weights=array, params=params)
                self.accounts.append(account)
                stored = self._stored.store(value, home(node), params, integers, folded=True)
                node.replace_input_with(index, stored)

    def _activations(self) -> None:
        plan = self._plan
        uses = {name: tuple(value.uses()) for name, value in plan.tensors.items()}
        readers = {id(layer.node) for layer in plan.layers} | {id(node) for node in (*plan.products, *plan.moved)}
        for name, value in plan.tensors.items():
            params = self._params[plan.range_from.get(name, name)]
            smoothing = self._smoothing(name)
            shifted = name in plan.shifted
            integer = [(node, index) for node, index in uses[name] if name in plan.whole or id(node) in readers]
            for node, index in integer:
                quantized = self._qdq.activation(value, home(node), params, smoothing, shifted=shifted)
                node.replace_input_with(index, quantized)
            within = {node.graph for node, _ in integer}
            for node, index in uses[name]:
                if name in plan.shortcuts and smoothing is None and node.graph in within and _is_shortcut(node):
                    node.replace_input_with(index, self._qdq.itself(value, home(node)))

    def _chosen(self, name: str) -> np.ndarray | None:
        """The integers of :attr:`_rounding` for weights, which are then listed as used; None if there are none."""
        integers = self._rounding.get(name)
        if integers is not None:
            self.rounded_adaptively.append(name)
        return integers

    def _smoothing(self, name: str) -> Smoothing | None:
        tensor = self._tensors.get(name)
        return tensor.smoothing if tensor is not None else None

    def _quantized(self, layer: Layer, source: str) -> None:
        weights = layer.weights()
        shared = self._shared.get(layer.name)
        params = shared or self._plan.weight_params(layer, weights, self._tensors, source)
        if self._settings.sums_in_int16:
            free = layer_weights(layer, weights, params.dtype)
            scaled = int(np.count_nonzero(params.scale > free.scale))
            if scaled:
                self.restricted[layer.name] = scaled
        # weights of several layers are not rounded adaptively: integers chosen for one layer may not suit the others
        integers = self._chosen(layer.name) if shared is None else None
        if integers is None:
            integers = params.quantize(weights)
        self._correct(layer, params, integers, source)
        shift = shift_of(self._params[source]) if source in self._plan.shifted else 0.0
        if shift and takes_shift(layer):
            add_to_bias(self._graph, layer, taken_off(layer, params.dequantize(integers), shift), self._qdq.names)
        elif shift:
            data = self._plan.tensors[source]
            add_map(layer, map_taken_off(layer, data, params.dequantize(integers), shift), self._qdq.names)
        graph = home(layer.node)
        dequantized = self._qdq.weight(layer.weight, graph, params, integers)
        bias = layer.bias
        layer.node.replace_input_with(layer.weight_index, dequantized)
        if self._settings.bias == "int32" and bias is not None:
            activation = self._params[self._plan.range_from.get(source, source)]
            integer = self._qdq.bias(bias, graph, activation.scale * params.scale)
            if integer is not None:
                layer.node.replace_input_with(2, integer)
        if self._settings.separate_bias:
            set_bias_apart(layer, self._qdq.names)

    def _shared_params(self, source: Mapping[str, str]) -> dict[str, QParams]:
        """Parameters for weights that several layers read, by layer: with the largest scale that one of them needs."""
        readers: dict[tuple[ir.Value, int], list[Layer]] = {}
        for layer in self._plan.layers:
            readers.setdefault((layer.weight, layer.channel_axis), []).append(layer)
        found: dict[str, QParams] = {}
        for layers in readers.values():
            if len(layers) > 1:
                each = [
                    self._plan.weight_params(layer, layer.weights(), self._tensors, source[layer.name])
                    for layer in layers
                ]
                largest = np.max([params.scale for params in each], axis=0)
                found |= {layer.name: replace(each[0], scale=largest) for layer in layers}
        return found

    def _only_stored(self, layer: Layer, source: Mapping[str, str]) -> None:
        weights = layer.weights()
        if weights.size < FEWEST:
            self._tell(layer, source, FLOAT, "its weights are few")
            return
        params = layer_params(layer, *self._forms[layer.name])
        if not saves_room(weights, params, self._settings.float_weights):
            self._tell(layer, source, FLOAT, SCALES_WEIGH_MORE)
            return
        is_shared = self._readers[layer.weight, layer.channel_axis] > 1  # see _quantized
        rounded = None if is_shared else self._chosen(stored_name(layer))
        integers = params.quantize(weights) if rounded is None else rounded
        self._correct(layer, params, integers, layer.data.name or "", stored=True)
        stored = self._stored.store(layer.weight, home(layer.node), params, integers)
        layer.node.replace_input_with(layer.weight_index, stored)
        if self._settings.separate_bias and params.block:
            set_bias_apart(layer, self._qdq.names)
        how = ADAPTIVELY if rounded is not None else ""
        why = self._plan.kept_float.get(layer.name)
        self._tell(layer, source, STORED, "; ".join(filter(None, [_form(params), how, why])), weights, params)

    def _correct(
        self, layer: Layer, params: QParams, integers: np.ndarray, source: str, *, stored: bool = False
    ) -> None:
        tensor = self._tensors.get(source)
        channels = tensor.channels.get(layer.input_axis) if tensor is not None else None
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
        add_to_bias(self._graph, layer, shift, self._qdq.names)


def _form(params: QParams) -> str:
    return f"{params.dtype.name}, " + (f"a scale for {params.block} inputs" if params.block else "a scale a channel")
