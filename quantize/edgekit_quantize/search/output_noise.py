"""Measures the effect of an error inside a model on its outputs, by executing the model with that one error.

The size of an error relative to the values it is added to says little about this effect: one layer of a text detector
may cause four fifths of the error that quantizing all its sixty layers causes in its map.

If an output is that of a Softmax or a Sigmoid, its input is compared instead: these functions hide errors as long as
they are small, and the errors of several layers together are not small.

Values before a layer do not depend on its error. A model of many layers is therefore divided into successive parts.
From the first layer of a part on, the model is executed once for each of the part's layers, and the values before the
part are computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.execution.value_numbers import read_values
from edgekit.model import bodies, node_name
from edgekit_quantize.calibration.activations import activation_params
from edgekit_quantize.calibration.references import Feeds, References
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import Names, add_initializer, home, is_standard
from edgekit_quantize.graph.session import session
from edgekit_quantize.placement import Plan
from edgekit_quantize.search.variances import variances_of
from edgekit_quantize.search.work import A_SECOND, work_of

SWALLOWING = ("Softmax", "LogSoftmax", "Sigmoid")
SAMPLES = 4
"""The number of samples on which the errors of layers are measured; fewer if that would exceed :data:`MOST_WORK`."""
MOST_WORK = 4 * A_SECOND
"""The maximum work of all executions together (:func:`edgekit_quantize.search.work.work_of`): four seconds."""
MOST_PARTS = 6
"""The maximum number of parts: with MOST_PARTS, three in five nodes are executed per layer on average."""
LAYERS_A_PART = 8
"""The minimum number of layers in a part, because each part takes a separate session."""


def outputs_before_swallowing(graph: ir.Graph) -> list[str]:
    """Replaces outputs of :data:`SWALLOWING` operators by the operators' inputs; returns the outputs' names, each once.

    Args:
        graph: The main graph, changed in place.
    """
    for place, output in enumerate(graph.outputs):
        node = output.producer()
        if node is not None and is_standard(node, *SWALLOWING) and node.inputs[0] is not None:
            graph.outputs[place] = node.inputs[0]
    names = list(dict.fromkeys(output.name or "" for output in graph.outputs))
    graph.outputs[:] = [next(value for value in graph.outputs if value.name == name) for name in names]
    return names


def noise_between(
    expected: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], spread: Mapping[str, float]
) -> float:
    """Power of the error of one sample's outputs over the variance of all samples', summed over the outputs.

    Numbers that are not finite without the error are left out; what becomes so by the error is wrong as a whole.

    Args:
        expected: The outputs without the error.
        outputs: The outputs with the error.
        spread: The variance of each output (:func:`edgekit_quantize.search.variances.variances_of`).
    """
    total = 0.0
    for name, variance in spread.items():
        if not variance:
            continue
        right = expected[name].astype(np.float64)
        error = np.square(right)
        if outputs[name].shape == right.shape:
            with np.errstate(invalid="ignore"):  # infinities in both, which are left out below
                found = np.square(outputs[name].astype(np.float64) - right)
            error = np.where(np.isfinite(found), found, error)
        total += float(np.sum(error[np.isfinite(right)])) / variance
    return total


class SwitchedModel:
    """The float model with a switch at each layer of a plan: whether what the layer reads is rounded.

    Args:
        prepared: The prepared float model that the plan was made for; it is not changed.
        plan: Which layers are quantized.
        tensors: The activations' statistics from calibration.
        part: The indices of the main graph's nodes whose layers get a switch; None for all. Values that earlier nodes
            pass to the rest of the graph become inputs.
        shown: Values computed by nodes of the part, which :meth:`run_showing` returns.
    """

    def __init__(
        self,
        prepared: ir.Model,
        plan: Plan,
        tensors: Mapping[str, TensorStatistics],
        part: range | None = None,
        shown: Collection[str] = (),
    ) -> None:
        model = prepared.clone()
        nodes = [*model.graph]
        part = part or range(len(nodes))
        outputs_before_swallowing(model.graph)
        _begin_at(model.graph, part.start)
        self._outputs = [output.name or "" for output in model.graph.outputs]
        self._names = Names(model.graph)
        self._switches: dict[str, str] = {}
        readers = {layer.name: layer for layer in plan.layers}
        for node in [inner for place in part for inner in _with_inner(nodes[place])]:
            layer = readers.get(node_name(node))
            if layer is not None and layer.node.op_type == node.op_type:
                self._switches[layer.name] = self._add_switch(model.graph, node, layer, plan, tensors)
        made = {value.name: value for node in model.graph for value in node.outputs}
        self._shown = [name for name in shown if name in made and name not in self._outputs]
        model.graph.outputs.extend(made[name] for name in self._shown)
        self._model = model

    @cached_property
    def _session(self) -> Any:
        return session(self._model)

    @property
    def layers(self) -> list[str]:
        """The layers that have a switch, by name."""
        return [*self._switches]

    def run(self, feeds: Mapping[str, np.ndarray], rounded: str = "") -> dict[str, np.ndarray]:
        """Outputs by name, with the input of the layer ``rounded`` rounded; nothing is rounded if it is empty."""
        return self._run(self._outputs, feeds, rounded)

    def run_showing(self, feeds: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Outputs by name with nothing rounded; and the same with the values of ``shown`` added."""
        found = self._run([*self._outputs, *self._shown], feeds, "")
        return {name: found[name] for name in self._outputs}, found

    def work(self, feeds: Mapping[str, np.ndarray]) -> float:
        """The work of one run (:func:`edgekit_quantize.search.work.work_of`)."""
        return work_of(self._model, self._fed(feeds, ""))

    def _run(self, names: Sequence[str], feeds: Mapping[str, np.ndarray], rounded: str) -> dict[str, np.ndarray]:
        return dict(zip(names, self._session.run(names, self._fed(feeds, rounded)), strict=True))

    def _fed(self, feeds: Mapping[str, np.ndarray], rounded: str) -> dict[str, np.ndarray]:
        return {**feeds, **{switch: np.array(layer == rounded) for layer, switch in self._switches.items()}}

    def _add_switch(
        self, graph: ir.Graph, node: ir.Node, layer: Layer, plan: Plan, tensors: Mapping[str, TensorStatistics]
    ) -> str:
        source = layer.data.name or ""
        root = plan.range_from.get(source, source)
        params = activation_params(tensors[root], plan.settings.preparation, plan.rule(root))
        smoothing = tensors[source].smoothing if source in tensors else None
        value = node.inputs[layer.data_index]
        assert value is not None
        switch = ir.Value(
            name=self._names.fresh(f"{layer.name}_switch"), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([])
        )
        graph.inputs.append(switch)

        def constant(kind: str, array: np.ndarray) -> ir.Value:
            return add_initializer(graph, self._names.fresh(f"{layer.name}_{kind}"), array)

        scale = constant("scale", params.scale)
        zero = constant("zero_point", params.zero_point.astype(params.dtype.name))
        smooth, rough = [], []
        if smoothing is not None:
            rank = 1 if smoothing.axis == -1 or layer.data.shape is None else len(layer.data.shape)
            factors = constant("factors", smoothing.along(rank))
            smooth = [ir.node("Div", [value, factors])]
        quantize = ir.node("QuantizeLinear", [smooth[0].outputs[0] if smooth else value, scale, zero])
        dequantize = ir.node("DequantizeLinear", [quantize.outputs[0], scale, zero])
        if smoothing is not None:
            rough = [ir.node("Mul", [dequantize.outputs[0], factors])]
        rounding, as_it_is = [*smooth, quantize, dequantize, *rough], [ir.node("Identity", [value])]
        branches = {"then_branch": rounding, "else_branch": as_it_is}  # only one of them is executed
        bodies = {
            name: ir.Graph([], [nodes[-1].outputs[0]], nodes=nodes, name=self._names.fresh(f"{layer.name}_{name}"))
            for name, nodes in branches.items()
        }
        choice = ir.node("If", [switch], bodies)
        for each in (*rounding, *as_it_is, choice):
            each.outputs[0].shape, each.outputs[0].type = value.shape, value.type
            each.outputs[0].name = self._names.fresh(f"{layer.name}_{each.op_type}")
        quantize.outputs[0].type = ir.TensorType(ir.DataType[params.dtype.name.upper()])
        home(node).insert_before(node, choice)
        node.replace_input_with(layer.data_index, choice.outputs[0])
        return switch.name or ""


def noise_of_inputs(
    prepared: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    references: References,
    done: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """The noise at the outputs from rounding the inputs of each layer: power of the error over the outputs' variance.

    Args:
        prepared: The prepared float model that the plan was made for.
        plan: Which layers are quantized.
        tensors: The activations' statistics from calibration.
        references: Samples.
        done: Called with the number of layers that are measured and the total.
    """
    whole = SwitchedModel(prepared, plan, tensors)
    samples = [each.feeds for each in references.spread(SAMPLES)]
    samples = samples[: max(1, int(MOST_WORK / whole.work(samples[0]) / max(len(whole.layers), 1)))]
    nodes, starts = [*prepared.graph], _starts(prepared.graph, whole.layers)
    fed: list[Feeds] = [*samples]
    spread: dict[str, float] = {}
    found: dict[str, float] = {}
    for start, end in zip(starts, [*starts[1:], len(nodes)], strict=True):
        further = [value.name or "" for value in _crossing(nodes, end)]
        switched = whole if len(starts) == 1 else SwitchedModel(prepared, plan, tensors, range(start, end), further)
        runs = [switched.run_showing(feeds) for feeds in fed]
        spread = spread or variances_of([outputs for outputs, _ in runs])
        for layer in switched.layers:
            found[layer] = sum(
                noise_between(right, switched.run(feeds, layer), _among(spread, right))
                for feeds, (right, _) in zip(fed, runs, strict=True)
            )
            if done is not None:
                done(len(found), len(whole.layers))
        known = [{**feeds, **values} for feeds, (_, values) in zip(fed, runs, strict=True)]
        fed = [
            {**given, **{name: values[name] for name in further}} for given, values in zip(samples, known, strict=True)
        ]
    return found


def _among(spread: Mapping[str, float], outputs: Collection[str]) -> dict[str, float]:
    """The variances of the named outputs; other outputs are computed before a part and do not depend on its layers."""
    return {name: variance for name, variance in spread.items() if name in outputs}


def _starts(graph: ir.Graph, layers: Collection[str]) -> list[int]:
    """The indices of the first nodes of parts with about the same number of layers each."""
    nodes = [*graph]
    places = [place for place, node in enumerate(nodes) for inner in _with_inner(node) if node_name(inner) in layers]
    parts = max(1, min(MOST_PARTS, len(places) // LAYERS_A_PART))
    starts = {places[number * len(places) // parts] for number in range(1, parts)} - {0}
    return [0, *sorted(start for start in starts if _may_be_fed(_crossing(nodes, start)))]


def _may_be_fed(values: Sequence[ir.Value]) -> bool:
    return all(isinstance(value.type, ir.TensorType) for value in values)


def _with_inner(node: ir.Node) -> Iterator[ir.Node]:
    """The node, and those of its branches and loops."""
    yield node
    for body in bodies(node):
        yield from body.all_nodes()


def _crossing(nodes: Sequence[ir.Node], start: int) -> list[ir.Value]:
    """The values that nodes before index ``start`` compute and later nodes read."""
    made = {value for node in nodes[:start] for value in node.outputs}
    return list(dict.fromkeys(value for node in nodes[start:] for value in read_values(node) if value in made))


def _begin_at(graph: ir.Graph, start: int) -> None:
    """Removes the nodes before index ``start``: their values that others read become inputs, and are no outputs."""
    nodes = [*graph]
    before, crossing = nodes[:start], _crossing(nodes, start)
    made = {value for node in before for value in node.outputs}
    graph.outputs[:] = [value for value in graph.outputs if value not in made]
    for value in crossing:
        given = ir.Value(name=value.name, shape=value.shape, type=value.type)
        ir.convenience.replace_all_uses_with(value, given)
        graph.inputs.append(given)
    for node in before:
        for inner in _with_inner(node):
            for place in range(len(inner.inputs)):
                inner.replace_input_with(place, None)
    graph.remove(before, safe=True)
    for name, value in [*graph.initializers.items()]:
        if before and not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            del graph.initializers[name]
