"""What became of every layer, and the error that it adds: plain data for the record."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from edgekit.comparison.metrics import decibels, json_number
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.float16 import half_db
from edgekit_quantize.graph import constant, is_standard, node_name
from edgekit_quantize.layers import Layer, layer_of
from edgekit_quantize.placement import Plan, Settings, place
from edgekit_quantize.qparams import TYPES, QParams, sum_of_squares
from edgekit_quantize.sensitivity import LayerError, layer_errors, stored_db
from edgekit_quantize.stored import FEWEST, RECURRENT, layer_params, recurrent_weights, stored_form, tables
from edgekit_quantize.weights import symmetric_weights
from edgekit_quantize.writing import Written

INTEGERS, DYNAMIC, STORED, FLOAT = "integers", "dynamic integers", "stored as integers", "float"
HALF = "stored as float16"


@dataclass(frozen=True)
class LayerAccount:
    """What became of one layer."""

    layer: str
    kind: str
    done: str
    """``integers``; ``dynamic integers``: the input is quantized by its own range every time; ``stored as integers``:
    its weights alone are; ``stored as float16``; ``float``."""
    how: str
    """By which methods, or why not."""
    source: str
    """The tensor that comes in."""
    sqnr_db: float | None = None
    """Power of the output over that of the error that integers add, or would add, to this layer alone."""
    weights_db: float | None = None
    """The same for the weights alone."""
    inputs_db: float | None = None
    """The same for the inputs alone."""
    low: float | None = None
    """The extremes of the inputs, where samples told."""
    high: float | None = None
    range_low: float | None = None
    """The range that the integers cover."""
    range_high: float | None = None
    outliers: float | None = None
    """Largest magnitude of the inputs over their root mean square."""

    def as_record(self) -> dict[str, Any]:
        """Plain data; infinite ratios as texts."""
        numbers = ("sqnr_db", "weights_db", "inputs_db")
        record = asdict(self)
        return record | {name: json_number(record[name]) for name in numbers if record[name] is not None}


def account(
    prepared: ir.Model,
    settings: Settings,
    written: Written,
    tensors: Mapping[str, TensorStatistics],
    *,
    rounded_with_care: bool = False,
) -> list[LayerAccount]:
    """An account of every layer, table and recurrent node; those that add the largest error first, float ones last.

    Args:
        prepared: The model that the candidate was written from.
        settings: What the candidate was written by.
        written: The candidate.
        tensors: What calibration told of the layers' inputs; empty where there were no samples.
        rounded_with_care: Whether weights were rounded adaptively; errors are told of rounding to nearest.
    """
    plan = place(prepared.graph, settings)
    found = list(_stored(plan, tensors))
    if tensors:
        errors = {error.layer: error for error in layer_errors(plan, tensors)}
        how = _How(plan, tensors, rounded_with_care)
        found += [_computed(layer, errors[layer.name], how, written) for layer in plan.layers]
    else:
        found += [LayerAccount(layer.name, layer.kind, INTEGERS, "", layer.data.name or "") for layer in plan.layers]
    found += [_dynamic(layer, tensors) for layer in plan.dynamic]
    found += [LayerAccount(node_name(node), "MatMul", INTEGERS, "of two activations", "") for node in plan.products]
    found += _tables(prepared, settings)
    found += _recurrent(prepared, settings)
    lstms = {node_name(node) for node in prepared.graph.all_nodes() if is_standard(node, "LSTM")}
    found += [
        LayerAccount(name, "LSTM", DYNAMIC, "int8, a scale a channel", "")
        for name in written.quantized
        if name in lstms
    ]
    found += _in_float(prepared, plan, {entry.layer for entry in found})
    return sorted(found, key=lambda entry: (entry.done == FLOAT, _error_of(entry)))


def account_halves(prepared: ir.Model, written: Written) -> list[LayerAccount]:
    """An account of every constant of a model whose constants are stored in half precision, the largest error first.

    Args:
        prepared: The model that it was written from.
        written: The model, and the names of its constants.
    """
    found = []
    for graph in prepared.graphs():
        for value in graph.initializers.values():
            name = value.name or ""
            array = constant(value)
            if array is None or (name not in written.stored and name not in written.kept_float):
                continue
            error = half_db(array)
            readers = sorted({node.op_type for node, _ in value.uses()})
            done = HALF if name in written.stored else FLOAT
            how = written.kept_float.get(name, "")
            found.append(LayerAccount(name, ", ".join(readers), done, how, "", sqnr_db=error, weights_db=error))
    return sorted(found, key=lambda entry: (entry.done == FLOAT, _error_of(entry)))


def _in_float(prepared: ir.Model, plan: Plan, named: Container[str]) -> Iterator[LayerAccount]:
    for node in prepared.graph.all_nodes():
        layer = layer_of(node)
        if layer is None or layer.name in named:
            continue
        inside = node.graph is not prepared.graph
        why = "it stands inside a branch or a loop" if inside else plan.kept_float.get(layer.name, "")
        yield LayerAccount(layer.name, layer.kind, FLOAT, why, layer.data.name or "")


def _error_of(entry: LayerAccount) -> float:
    return math.inf if entry.sqnr_db is None else entry.sqnr_db


class _How:
    """Names the methods that a layer's integers came by."""

    def __init__(self, plan: Plan, tensors: Mapping[str, TensorStatistics], careful: bool) -> None:
        self._plan, self._tensors, self._careful = plan, tensors, careful

    def __call__(self, layer: Layer) -> str:
        plan, source = self._plan, layer.data.name or ""
        tensor = self._tensors.get(source)
        if tensor is not None and tensor.params is not None:
            parts = ["a range a channel by least error"]
        else:
            parts = [f"range by {plan.rule(plan.range_from.get(source, source))}"]
            if tensor is not None and tensor.smoothing is not None:
                parts.append("smoothed")
        if layer.output.name in plan.whole:
            parts.append("output too")
        if self._careful:
            parts.append("rounded with care")
        return ", ".join(parts)


def _computed(layer: Layer, error: LayerError, how: _How, written: Written) -> LayerAccount:
    """A layer that computes with integers, or that was to do so and went back to float."""
    told = {name: value for name, value in asdict(error).items() if name not in {"layer", "kind"}}
    if layer.name in written.quantized:
        return LayerAccount(layer.name, layer.kind, INTEGERS, how(layer), **told)
    done = STORED if layer.weights().size >= FEWEST else FLOAT
    return LayerAccount(layer.name, layer.kind, done, written.kept_float.get(layer.name, ""), **told)


def _stored(plan: Plan, tensors: Mapping[str, TensorStatistics]) -> Iterator[LayerAccount]:
    for layer in plan.stored:
        tensor = tensors.get(layer.data.name or "")
        known = _input_of(tensor.histogram) if tensor is not None else {}
        if layer.weights().size < FEWEST:
            yield LayerAccount(layer.name, layer.kind, FLOAT, "its weights are few", layer.data.name or "", **known)
            continue
        params = layer_params(layer, *stored_form(layer, plan.settings.weights, plan.settings.block))
        error = stored_db(layer, params, tensor)
        why = plan.kept_float.get(layer.name)
        how = _form(params) if why is None else f"{_form(params)}; {why}"
        yield LayerAccount(
            layer.name, layer.kind, STORED, how, layer.data.name or "", sqnr_db=error, weights_db=error, **known
        )


def _dynamic(layer: Layer, tensors: Mapping[str, TensorStatistics]) -> LayerAccount:
    tensor = tensors.get(layer.data.name or "")
    params = symmetric_weights(layer.weights(), TYPES["int8"], layer.channel_axis)
    known = _input_of(tensor.histogram) if tensor is not None else {}
    error = stored_db(layer, params, tensor)
    return LayerAccount(
        layer.name, layer.kind, DYNAMIC, _form(params), layer.data.name or "", weights_db=error, **known
    )


def _tables(prepared: ir.Model, settings: Settings) -> Iterator[LayerAccount]:
    if settings.layers.get("Gather") == "weights":
        for node in tables(prepared):
            table = constant(node.inputs[0])
            if table is not None:
                yield _only_weights(node, 0, symmetric_weights(table, TYPES["int8"], 1))


def _recurrent(prepared: ir.Model, settings: Settings) -> Iterator[LayerAccount]:
    for node, index, params in recurrent_weights(prepared):
        if node.op_type in RECURRENT and settings.layers.get(node.op_type) == "weights":
            yield _only_weights(node, index, params)


def _only_weights(node: ir.Node, index: int, params: QParams) -> LayerAccount:
    """A constant of a node of which only the rounding of its numbers is known."""
    value = node.inputs[index]
    array = constant(value)
    error = None
    if array is not None:
        error = decibels(sum_of_squares(array), params.squared_error(array))
    name = node_name(node) if index == 0 else f"{node_name(node)}, {'input' if index == 1 else 'recurrence'}"
    return LayerAccount(name, node.op_type, STORED, _form(params), "", sqnr_db=error, weights_db=error)


def _input_of(histogram: Histogram) -> dict[str, float]:
    if histogram.is_empty:
        return {}
    power = histogram.sum_of_squares / histogram.total
    peak = max(-histogram.low, histogram.high)
    return {"low": histogram.low, "high": histogram.high, "outliers": peak / math.sqrt(power) if power else 0.0}


def _form(params: QParams) -> str:
    return f"{params.dtype.name}, " + (f"a scale for {params.block} inputs" if params.block else "a scale a channel")
