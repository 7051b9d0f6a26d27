"""What an error inside of a model becomes at its outputs, by executing the model with that one error.

How large an error is beside the values that it joins tells little of that: one layer of a text detector may carry four
fifths of what quantizing all sixty of them does to its map.

Where an output is that of a Softmax or a Sigmoid, what goes into it is taken: those swallow errors as long as they are
small, and errors of several layers together are not small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.model import node_name
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
"""The number of samples on which the errors of layers are measured; fewer where that would take long."""
MOST_WORK = 4 * A_SECOND
"""What the executions may count in all (:func:`edgekit_quantize.search.work.work_of`): four seconds."""


def outputs_before_swallowing(graph: ir.Graph) -> list[str]:
    """Makes what goes into a swallowing operator an output in its place, and gives the outputs' names, each once."""
    for place, output in enumerate(graph.outputs):
        node = output.producer()
        if node is not None and is_standard(node, *SWALLOWING) and node.inputs[0] is not None:
            graph.outputs[place] = node.inputs[0]
    names = list(dict.fromkeys(output.name or "" for output in graph.outputs))
    graph.outputs[:] = [next(value for value in graph.outputs if value.name == name) for name in names]
    return names


def spread_samples(references: References, most: int) -> list[Feeds]:
    """What ``most`` of the samples feed at most, evenly spread over all of them."""
    count = min(len(references), most)
    places = {number * len(references) // count for number in range(count)}
    return [each.feeds for place, each in enumerate(references) if place in places]


def noise_between(
    expected: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], spread: Mapping[str, float]
) -> float:
    """Power of the error of one sample's outputs over the variance of all samples', summed over the outputs.

    Args:
        expected: The right outputs.
        outputs: Those with the error.
        spread: The variance of each output (:func:`edgekit_quantize.search.variances.variances_of`).
    """
    total = 0.0
    for name, variance in spread.items():
        if not variance:
            continue
        if outputs[name].shape == expected[name].shape:
            error = np.square(outputs[name].astype(np.float64) - expected[name])
        else:
            error = np.square(expected[name], dtype=np.float64)
        total += float(np.sum(error[np.isfinite(error)])) / variance
    return total


class SwitchedModel:
    """The float model with a switch at each layer of a plan: whether what the layer reads is rounded.

    Args:
        prepared: The prepared float model that the plan was made for; it is not changed.
        plan: What is quantized.
        tensors: What calibration told of the activations.
    """

    def __init__(self, prepared: ir.Model, plan: Plan, tensors: Mapping[str, TensorStatistics]) -> None:
        model = prepared.clone()
        self._names = Names(model.graph)
        self._switches: dict[str, str] = {}
        readers = {layer.name: layer for layer in plan.layers}
        for node in [*model.graph.all_nodes()]:
            layer = readers.get(node_name(node))
            if layer is not None and layer.node.op_type == node.op_type:
                self._switches[layer.name] = self._add_switch(model.graph, node, layer, plan, tensors)
        self._outputs = outputs_before_swallowing(model.graph)
        self._session = session(model)
        self._model = model

    @property
    def layers(self) -> list[str]:
        """The layers that have a switch, by name."""
        return [*self._switches]

    def run(self, feeds: Mapping[str, np.ndarray], rounded: str = "") -> dict[str, np.ndarray]:
        """Outputs by name, with what one layer reads rounded, or none where it is not named."""
        return dict(zip(self._outputs, self._session.run(self._outputs, self._fed(feeds, rounded)), strict=True))

    def work(self, feeds: Mapping[str, np.ndarray]) -> float:
        """What one run counts (:func:`edgekit_quantize.search.work.work_of`)."""
        return work_of(self._model, self._fed(feeds, ""))

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
        branches = {"then_branch": rounding, "else_branch": as_it_is}  # of which one is executed
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
    """What rounding the inputs of each layer of a plan adds to the outputs: power of the error over their variance.

    Args:
        prepared: The prepared float model that the plan was made for.
        plan: What is quantized.
        tensors: What calibration told of the activations.
        references: Samples.
        done: Told how many layers of how many are measured.
    """
    switched = SwitchedModel(prepared, plan, tensors)
    samples = spread_samples(references, SAMPLES)
    samples = samples[: max(1, int(MOST_WORK / switched.work(samples[0]) / max(len(switched.layers), 1)))]
    before = [switched.run(feeds) for feeds in samples]
    return _noises(switched, samples, before, done)


def _noises(
    switched: SwitchedModel,
    samples: Sequence[Feeds],
    before: Sequence[Mapping[str, np.ndarray]],
    done: Callable[[int, int], None] | None,
) -> dict[str, float]:
    spread = variances_of(before)
    found: dict[str, float] = {}
    for place, layer in enumerate(switched.layers):
        pairs = zip(samples, before, strict=True)
        found[layer] = sum(noise_between(right, switched.run(feeds, layer), spread) for feeds, right in pairs)
        if done is not None:
            done(place + 1, len(switched.layers))
    return found
