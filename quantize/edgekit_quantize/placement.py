"""Which tensors of a graph are quantized, as a target's settings say."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.activations import activation_params, largest_integers
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.ranges import AROUND_ZERO
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import LAYER_KINDS, Layer, layers
from edgekit_quantize.graph.nodes import constant, home, is_standard, only_consumer
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.weights import layer_weights
from edgekit_quantize.integers.zero_points import takes_shift
from edgekit_quantize.settings import Settings

DEFAULT_RULE = "percentile"
TOO_LARGE = "its error is too large"
ACTIVATIONS = ("Relu", "Clip", "HardSwish", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "PRelu")
"""Functions of single numbers that stand behind a layer."""
TO_SOFTMAX = ("Add", "Sub", "Mul", "Div", "Where")
"""What stands between a product and Softmax where exporters scale and mask an attention's scores."""


@dataclass
class Plan:
    """What will be quantized in a graph."""

    settings: Settings
    layers: list[Layer] = field(default_factory=list)
    """Layers whose activations and weights are quantized."""
    stored: list[Layer] = field(default_factory=list)
    """Layers whose weights are stored as integers and computed in float."""
    dynamic: list[Layer] = field(default_factory=list)
    """Layers whose activations are quantized by their own range every time."""
    kept_float: dict[str, str] = field(default_factory=dict)
    """Layers that stay float, by name, and why."""
    tensors: dict[str, ir.Value] = field(default_factory=dict)
    """The activations to quantize, by name."""
    whole: set[str] = field(default_factory=set)
    """Those of them that no consumer sees in float."""
    range_from: dict[str, str] = field(default_factory=dict)
    """Where a tensor takes its range from another one, because integers are only moved from that to it."""
    rules: dict[str, str] = field(default_factory=dict)
    """The rule for the range of a tensor; :data:`DEFAULT_RULE` where there is no entry."""
    shifted: set[str] = field(default_factory=set)
    """Activations whose zero point moves into the biases of all layers that read their integers."""
    shortcuts: set[str] = field(default_factory=set)
    """Activations that an Add reads as integers too, where nothing divides them on the way."""
    products: list[ir.Node] = field(default_factory=list)
    """MatMul nodes whose operands are both activations."""
    moved: list[ir.Node] = field(default_factory=list)
    """Nodes that move integers."""

    def rule(self, name: str) -> str:
        """The rule for the range of a tensor."""
        return self.rules.get(name, DEFAULT_RULE)

    def weight_params(
        self, layer: Layer, weights: np.ndarray, tensors: Mapping[str, TensorStatistics], source: str
    ) -> QParams:
        """How the weights of one of the layers are quantized.

        Args:
            layer: The layer.
            weights: Its float weights, divided activations taken up.
            tensors: What calibration told of the activations.
            source: The layer's input in the float model.
        """
        dtype = TYPES[self.settings.weights]
        if not self.settings.sums_in_int16:
            return layer_weights(layer, weights, dtype)
        root, tensor = self.range_from.get(source, source), tensors.get(source)
        params = activation_params(tensors[root], self.settings.preparation, self.rule(root))
        channels = tensor.channels.get(layer.input_axis) if tensor is not None else None
        return layer_weights(layer, weights, dtype, largest_integers(params, channels))

    def readers(self) -> dict[str, list[Layer]]:
        """The activations whose integers go into quantized layers and nowhere else, each with those layers.

        Not where they are moved on, multiplied with another activation, or the only form in which the tensor remains.
        """
        shared = {*self.range_from, *self.range_from.values(), *self.whole}
        shared.update(value.name or "" for node in self.products for value in node.inputs if value is not None)
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            found.setdefault(layer.data.name or "", []).append(layer)
        return {name: layers for name, layers in found.items() if name not in shared}

    def outcome(self) -> tuple[Hashable, ...]:
        """What the plan comes to: two plans for a graph with the same outcome give the same file."""
        others = tuple(sorted((kind, mode) for kind, mode in self.settings.layers.items() if kind not in LAYER_KINDS))
        seen_in_layers = {"layers", "preparation", "fewest_channels"}
        told = {field.name for field in fields(self.settings)} - seen_in_layers
        if not self.layers and not self.products:
            told &= {"weights", "weights_form", "block"}
        rest = tuple((name, repr(getattr(self.settings, name))) for name in sorted(told))
        if self.layers or self.products:
            rest = (*rest, ("activations", self.settings.preparation.activations))
        chosen = (self.layers, self.stored, self.dynamic)
        names = tuple(tuple(layer.name for layer in layers) for layers in chosen)
        return (names, tuple(sorted(self.tensors)), tuple(sorted(self.whole)), others, rest)

    def observed(self) -> set[str]:
        """The tensors whose ranges are needed."""
        return {self.range_from.get(name, name) for name in self.tensors}


def place(
    graph: ir.Graph,
    settings: Settings,
    keep_float: Collection[str] = (),
    tensors: Mapping[str, TensorStatistics] | None = None,
) -> Plan:
    """Decide what is quantized.

    Args:
        graph: The prepared graph; it is not changed.
        settings: What the target prefers.
        keep_float: Names of layers that compute in float whatever the settings say: from weights stored as integers,
            or from float ones where the settings only store them.
        tensors: What calibration told, once it has: layers whose inputs no sample brought forth, or whose
            inputs hold NaN, compute in float.
    """
    plan = Plan(settings)
    made_in_float: set[str | None] = set()
    observable = reachable(graph)
    for layer in layers(graph):
        mode = settings.layers.get(layer.kind, "float")
        if mode == "float":
            plan.kept_float[layer.name] = f"the target computes {layer.kind} in float"
        elif mode in {"weights", "dynamic"} and layer.name in keep_float:
            plan.kept_float[layer.name] = TOO_LARGE
        elif mode == "weights":
            plan.stored.append(layer)
        elif mode == "dynamic":
            (plan.dynamic if layer.is_plain_product else plan.stored).append(layer)
        elif layer.name in keep_float:
            plan.kept_float[layer.name] = TOO_LARGE
            plan.stored.append(layer)
        elif _gains_little(layer, settings):
            plan.kept_float[layer.name] = "it has few input channels, which gain little from integers"
            plan.stored.append(layer)
            made_in_float.add(fused_output(layer.output, ACTIVATIONS).name)
        elif layer.kind == "DepthwiseConv" and layer.data.name in made_in_float:
            plan.kept_float[layer.name] = "what it reads is computed in float, and it gains little from integers"
            plan.stored.append(layer)
        elif not layer.data.name or layer.data.dtype not in (None, ir.DataType.FLOAT):
            plan.kept_float[layer.name] = f"its activations are {layer.data.dtype}"
            plan.stored.append(layer)
        elif home(layer.node) not in observable:
            plan.kept_float[layer.name] = "it stands inside a Scan"
            plan.stored.append(layer)
        elif tensors is not None and _holds_nan(layer.data, tensors):
            plan.kept_float[layer.name] = "its input holds NaN, for which no integer stands"
            plan.stored.append(layer)
        elif tensors is not None and not _seen(layer.data, tensors):
            plan.kept_float[layer.name] = "no sample reached it"
            plan.stored.append(layer)
        else:
            plan.layers.append(layer)
            plan.tensors[layer.data.name] = layer.data
            if layer.kind in settings.preparation.ranges:
                plan.rules[layer.data.name] = settings.preparation.ranges[layer.kind]
            if mode == "both":
                output = fused_output(layer.output, settings.fused)
                if output.name and _takes_integers(output, tensors):
                    plan.tensors[output.name] = output
                    plan.whole.add(output.name)
    if settings.activation_products:
        _products(graph, plan, keep_float, observable, tensors)
    _moves(plan)
    if settings.zero_points_in_biases:
        plan.shifted = {name for name, readers in plan.readers().items() if all(map(takes_shift, readers))}
        plan.rules = {n: rule for n, rule in plan.rules.items() if n not in plan.shifted or rule != AROUND_ZERO}
    if settings.shortcuts:
        plan.shortcuts = {
            name for name, found in plan.readers().items() if all("Conv" in layer.kind for layer in found)
        }
    return plan


def _gains_little(layer: Layer, settings: Settings) -> bool:
    """Whether a convolution has so few input channels that integers gain little."""
    return layer.kind == "Conv" and layer.weights().shape[1] < settings.fewest_channels


def fused_output(value: ir.Value, fused: Collection[str]) -> ir.Value:
    """The value behind the operators that are computed together with the one that made ``value``."""
    while (node := only_consumer(value)) is not None and is_standard(node, *fused):
        value = node.outputs[0]
    return value


def _takes_integers(output: ir.Value, tensors: Mapping[str, TensorStatistics] | None) -> bool:
    """Whether all that reads what a layer gives can read it as integers."""
    if output.is_graph_output() or not _stays_in(output):
        return False
    return tensors is None or (_seen(output, tensors) and not _holds_nan(output, tensors))


def _stays_in(value: ir.Value) -> bool:
    """Whether no branch or loop captures the value: ONNX Runtime aborts on a DequantizeLinear that one captures."""
    return all(node.graph is value.graph for node, _ in value.uses())


def _seen(value: ir.Value, tensors: Mapping[str, TensorStatistics]) -> bool:
    """Whether samples brought the value forth: they need not take every branch."""
    found = tensors.get(value.name or "")
    return found is None or not found.histogram.is_empty


def _holds_nan(value: ir.Value, tensors: Mapping[str, TensorStatistics]) -> bool:
    """Whether samples brought the value forth with numbers missing."""
    found = tensors.get(value.name or "")
    return found is not None and found.histogram.holds_nan


def _products(
    graph: ir.Graph,
    plan: Plan,
    keep_float: Collection[str],
    observable: Collection[ir.Graph],
    tensors: Mapping[str, TensorStatistics] | None,
) -> None:
    for node in graph.all_nodes():
        operands = [value for value in node.inputs if value is not None and constant(value) is None]
        if not is_standard(node, "MatMul") or len(operands) < 2 or node.name in keep_float or not _gives_scores(node):
            continue
        if home(node) not in observable:
            continue
        if tensors is not None and not all(_seen(value, tensors) for value in operands):
            continue
        if tensors is not None and any(_holds_nan(value, tensors) for value in operands):
            continue
        plan.products.append(node)
        for value in operands:
            if value.name and value.name not in plan.tensors:
                plan.tensors[value.name] = value
                plan.rules[value.name] = AROUND_ZERO


def _gives_scores(node: ir.Node) -> bool:
    """Whether what the node computes goes into Softmax and nowhere else, scaled and masked perhaps."""
    reader = only_consumer(node.outputs[0])
    while reader is not None and is_standard(reader, *TO_SOFTMAX):
        reader = only_consumer(reader.outputs[0])
    return reader is not None and is_standard(reader, "Softmax")


def _takes_the_nearest(node: ir.Node) -> bool:
    """Whether a Resize gives elements as they are; others compute with them."""
    mode, coordinates = (node.attributes.get(name) for name in ("mode", "coordinate_transformation_mode"))
    nearest = mode is None or mode.as_string() == "nearest"
    return nearest and (coordinates is None or coordinates.as_string() != "tf_crop_and_resize")


def _moves(plan: Plan) -> None:
    """Quantize what is moved into a quantized tensor too, with one range for both ends."""
    waiting = list(plan.tensors.values())
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if node is None or not is_standard(node, *plan.settings.moves) or value is not node.outputs[0]:
            continue
        if node.op_type == "Resize" and not _takes_the_nearest(node):
            continue
        if not _stays_in(value):
            continue
        source = node.inputs[0]
        if source is None or not source.name or not value.name or constant(source) is not None:
            continue
        plan.moved.append(node)
        plan.range_from[value.name] = source.name
        if source.name not in plan.tensors:
            plan.tensors[source.name] = source
            waiting.append(source)
    for name in plan.range_from:
        root = name
        while root in plan.range_from:
            root = plan.range_from[root]
        plan.range_from[name] = root
