"""Finds the weights of a model that can be stored in few bits, and writes the model with them stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit.model import node_name
from edgekit_quantize.accounts.account import FLOAT, STORED, LayerAccount
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.moments import Moments, row_length, rows_of
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer, layers
from edgekit_quantize.graph.nodes import Names, constant, home, initializers
from edgekit_quantize.graph.parameters import add_to_bias
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.integers.stored_weights import FEWEST, recurrent_name, recurrent_weights, tables
from edgekit_quantize.prepare.opset import upgraded
from edgekit_quantize.rounding.bias_correction import correction
from edgekit_quantize.settings import Settings
from edgekit_quantize.sizing.codebooks import Inputs, damped, encoded
from edgekit_quantize.sizing.forms import Form, Storage
from edgekit_quantize.writing.bias_apart import set_bias_apart
from edgekit_quantize.writing.stored import BLOCKED_OPSET, StoredWeights
from edgekit_quantize.writing.written import Written

LONGEST_ROW = 2048
"""Weights with more inputs per output than this are rounded to nearest: their moments take too much memory."""
FLOAT_FORM = "float"
"""The name of the form of a weight that stays float."""


@dataclass
class Weight:
    """A constant that only layers and tables read."""

    value: str
    """The constant's name."""
    matrix: np.ndarray
    """float32 ``[N, K]``: N output channels, with K inputs each."""
    axis: int
    """The constant's axis that runs over output channels."""
    shape: tuple[int, ...]
    """The constant's shape."""
    layers: list[str] = field(default_factory=list)
    """The names of the nodes that read it."""
    kind: str = ""
    captured: bool = False
    """Whether a node in another graph reads it: in a branch or a loop of its graph."""
    inputs: Inputs | None = None
    """Statistics of the inputs it is multiplied with; None if they were not observed."""
    _encoded: dict[str, tuple[np.ndarray, QParams]] = field(default_factory=dict)

    @property
    def is_matrix(self) -> bool:
        """Whether the weight is a matrix that only one layer reads, in the graph of the constant."""
        alone = len(self.layers) == 1 and not self.captured
        return len(self.shape) == 2 and alone and self.kind in {"MatMul", "Gemm"}

    def choices(self, storage: Storage) -> Iterator[Form]:
        """The forms in which the weight can be stored."""
        return (form for form in storage.forms if form.fits(self.matrix.shape, is_matrix=self.is_matrix))

    def stored(self, form: Form) -> tuple[np.ndarray, QParams]:
        """The weight's integers in a form, in the constant's shape, and their parameters along its axes."""
        if form.name not in self._encoded:
            self._encoded[form.name] = encoded(self.matrix, form, self.inputs)
        integers, params = self._encoded[form.name]
        if params.block:  # a matrix [N, K], the blocks along its inputs
            turned = self.axis != 0
            scale = params.scale.T if turned else params.scale
            zero = np.zeros(scale.shape, np.int32)
            return integers.T if turned else integers, QParams(scale, zero, params.dtype, 1 - self.axis, params.block)
        return self._as_constant(integers), QParams(params.scale, params.zero_point, params.dtype, self.axis)

    def rounded(self, form: Form) -> np.ndarray:
        """The constant after a round trip through a form, float32 in its shape."""
        integers, params = self.stored(form)
        return params.dequantize(integers)

    def _as_constant(self, matrix: np.ndarray) -> np.ndarray:
        rest = [size for axis, size in enumerate(self.shape) if axis != self.axis]
        return np.ascontiguousarray(np.moveaxis(matrix.reshape(matrix.shape[0], *rest), 0, self.axis))


def weights_of(model: ir.Model) -> dict[str, Weight]:
    """The constants that can be stored in few bits, by name.

    Args:
        model: The prepared float model.
    """
    found: dict[str, Weight] = {}
    readers: dict[str, int] = {}
    constants = initializers(model.graph)
    for layer in layers(model.graph):
        _add(found, readers, constants, layer.weight, layer.channel_axis, layer.node, layer.kind)
    for node in tables(model):
        _add(found, readers, constants, node.inputs[0], 1, node, "Gather")
    return {name: weight for name, weight in found.items() if _all_read(constants[name], readers[name])}


def _add(
    found: dict[str, Weight],
    readers: dict[str, int],
    constants: Mapping[str, ir.Value],
    value: ir.Value | None,
    axis: int,
    reader: ir.Node,
    kind: str,
) -> None:
    name = "" if value is None else value.name or ""
    array = constant(value)
    if array is None or name not in constants or array.dtype != np.float32 or array.size < FEWEST:
        return
    if name in found and found[name].axis != axis:
        return
    if name not in found:
        matrix = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
        found[name] = Weight(name, matrix, axis, array.shape, kind=kind)
    found[name].layers.append(node_name(reader))
    found[name].captured |= reader.graph is not constants[name].graph
    readers[name] = readers.get(name, 0) + 1


def _all_read(value: ir.Value, readers: int) -> bool:
    """Whether the readers that were found are the only uses of a constant."""
    return len(tuple(value.uses())) == readers and not value.is_graph_output() and not value.is_graph_input()


def measure_moments(model: ir.Model, weights: Mapping[str, Weight], feeds: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Sets :attr:`Weight.inputs`: moments of the products' inputs, with the damping that is best for other samples.

    Args:
        model: The prepared float model.
        weights: The weights, by their constants' names; changed in place.
        feeds: Samples.
    """
    readers: dict[str, list[Layer]] = {}
    halves: tuple[dict[str, Moments], dict[str, Moments]] = {}, {}
    observable = reachable(model.graph)
    for layer in layers(model.graph):
        if home(layer.node) not in observable:
            continue
        length = row_length(layer)
        if layer.weight.name in weights and layer.data.name and length is not None and length <= LONGEST_ROW:
            readers.setdefault(layer.data.name, []).append(layer)
            for moments in halves:
                moments.setdefault(layer.weight.name or "", Moments(length))
    half = halves[0]

    def take(name: str, array: np.ndarray) -> None:
        for layer in readers[name]:
            half[layer.weight.name or ""].update(rows_of(layer, array))

    def turn(done: int) -> None:
        nonlocal half
        half = halves[done % 2]

    observe(model, readers.keys(), feeds, take, turn)
    for name in list(halves[0]):
        weights[name].inputs = _inputs(weights[name].matrix, halves[0].pop(name), halves[1].pop(name))


def _inputs(matrix: np.ndarray, one: Moments, other: Moments) -> Inputs | None:
    count = one.count + other.count
    if not count:
        return None
    moments = (one.second * one.count + other.second * other.count) / count
    if not one.count or not other.count:
        return Inputs(moments)
    return damped(matrix, (one.second, other.second), moments)


def write_stored(
    prepared: ir.Model,
    weights: Mapping[str, Weight],
    forms: Mapping[str, Form | None],
    tensors: Mapping[str, TensorStatistics],
    settings: Settings,
    recurrence: Mapping[str, np.ndarray],
) -> Written:
    """A copy of the model with each weight in its form, and biases corrected for the mean error.

    Args:
        prepared: The prepared float model; it is not changed.
        weights: The weights, by their constants' names.
        forms: The form of each weight; None leaves it float.
        tensors: Statistics of the layers' inputs.
        settings: How the target's candidates write stored weights, and the biases behind them.
        recurrence: Integers for the weights of recurrent nodes
            (:func:`edgekit_quantize.rounding.recurrent.adaptively_rounded_recurrence`).
    """
    model = prepared.clone()
    if any(form is not None and form.block for form in forms.values()):
        model = upgraded(model, BLOCKED_OPSET)
    names = Names(model.graph)
    store = StoredWeights(settings.weights_form, names)
    written = Written(model)
    found = {layer.name: layer for layer in layers(model.graph)}
    constants = initializers(model.graph)
    for name, weight in weights.items():
        form = forms[name]
        if form is None:
            written.accounts += [LayerAccount(layer, weight.kind, FLOAT, "as it is") for layer in weight.layers]
            continue
        value = constants[name]
        integers, params = weight.stored(form)
        rounded = params.dequantize(integers)
        for reader in weight.layers:
            layer = found.get(reader)
            tensor = None if layer is None else tensors.get(layer.data.name or "")
            channels = None if tensor is None or layer is None else tensor.channels.get(layer.input_axis)
            if layer is not None and channels is not None and channels.count:
                shift = correction(layer, rounded, channels.mean)
                if shift is not None:
                    add_to_bias(model.graph, layer, shift)
            if layer is not None and form.block and settings.separate_bias:
                set_bias_apart(layer, names)
            written.accounts.append(LayerAccount(reader, weight.kind, STORED, form.name))
        for node, place in tuple(value.uses()):
            node.replace_input_with(place, store.store(value, home(node), params, integers))
    for node, index, params in list(recurrent_weights(model)):
        held = node.inputs[index]
        if held is not None:
            what = recurrent_name(node, index)
            written.accounts.append(LayerAccount(what, node.op_type, STORED, "int8"))
            stored = store.store(held, home(node), params, recurrence.get(what), folded=True)
            node.replace_input_with(index, stored)
    drop_unused_initializers(model.graph)
    return written
