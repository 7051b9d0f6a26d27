"""Decides which tensors of a graph are quantized, according to a target's settings."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import onnx_ir as ir

from edgekit.model import node_name
from edgekit_quantize.calibration.activations import activation_params, largest_integers
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.ranges import AROUND_ZERO
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import LAYER_KINDS, Layer, layers
from edgekit_quantize.graph.nodes import constant, home, is_standard, only_consumer
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.stored_weights import RECURRENT, stored_form, takes_steps
from edgekit_quantize.integers.weights import layer_weights
from edgekit_quantize.integers.zero_points import takes_map, takes_shift
from edgekit_quantize.settings import Settings

DEFAULT_RULE = "percentile"
TOO_LARGE = "its error is too large"
ACTIVATIONS = ("Relu", "Clip", "HardSwish", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "PRelu")
"""Elementwise activation functions behind a layer."""
TO_SOFTMAX = ("Add", "Sub", "Mul", "Div", "Where")
"""Operators between a product and Softmax by which exporters scale and mask attention scores."""


@dataclass
class Plan:
    """What will be quantized in a graph."""

    settings: Settings
    layers: list[Layer] = field(default_factory=list)
    """Layers whose activations and weights are quantized."""
    stored: list[Layer] = field(default_factory=list)
    """Layers whose weights are stored as integers and computed in float."""
    dynamic: list[Layer] = field(default_factory=list)
    """Layers whose activations are quantized by a range that is found in every run."""
    kept_float: dict[str, str] = field(default_factory=dict)
    """Layers that compute in float, by name, and why."""
    tensors: dict[str, ir.Value] = field(default_factory=dict)
    """The activations to quantize, by name."""
    whole: set[str] = field(default_factory=set)
    """The names in :attr:`tensors` that all consumers read as integers."""
    range_from: dict[str, str] = field(default_factory=dict)
    """For a tensor into which integers are only moved, the tensor that they come from, whose range it shares."""
    rules: dict[str, str] = field(default_factory=dict)
    """The rule for the range of a tensor; :data:`DEFAULT_RULE` if there is no entry."""
    shifted: set[str] = field(default_factory=set)
    """Activations whose zero point moves into the biases of all layers that read their integers."""
    shortcuts: set[str] = field(default_factory=set)
    """Activations that an Add may read as integers too, unless they are divided by factors before."""
    products: list[ir.Node] = field(default_factory=list)
    """MatMul nodes whose operands are both activations."""
    recurrent: list[ir.Node] = field(default_factory=list)
    """Recurrent nodes that are written out step by step."""
    moved: list[ir.Node] = field(default_factory=list)
    """Nodes that move integers."""
    beside_layers: dict[str, str] = field(default_factory=dict)
    """The mode of each kind of node in the graph that is no layer: tables and recurrent nodes."""

    @property
    def computes_with_integers(self) -> bool:
        """Whether anything multiplies integers, with calibrated ranges or with ranges found in every run."""
        return bool(self.layers or self.products or self.dynamic) or "dynamic" in self.beside_layers.values()

    def rule(self, name: str) -> str:
        """The rule for the range of a tensor."""
        return self.rules.get(name, DEFAULT_RULE)

    def weight_params(
        self, layer: Layer, weights: np.ndarray, tensors: Mapping[str, TensorStatistics], source: str
    ) -> QParams:
        """How the weights of one of the layers are quantized.

        Args:
            layer: The layer.
            weights: The layer's float weights, multiplied by the factors that divide its input.
            tensors: The activations' statistics from calibration.
            source: The name of the layer's input in the float model.
        """
        dtype = TYPES[self.settings.weights]
        if not self.settings.sums_in_int16:
            return layer_weights(layer, weights, dtype)
        root, tensor = self.range_from.get(source, source), tensors.get(source)
        params = activation_params(tensors[root], self.settings.preparation, self.rule(root))
        channels = tensor.channels.get(layer.input_axis) if tensor is not None else None
        return layer_weights(layer, weights, dtype, largest_integers(params, channels))

    def stored_form(self, layer: Layer) -> tuple[str, int]:
        """The type and block size in which the weights of one of the :attr:`stored` layers are written."""
        settings = self.settings
        return stored_form(layer, settings.weights, settings.block, whole_blocks=settings.whole_blocks)

    def readers(self) -> dict[str, list[Layer]]:
        """The activations whose integers are only read by quantized layers, each with these layers.

        An activation is left out if its integers are moved, are multiplied with another activation, or replace its
        floats everywhere.
        """
        shared = {*self.range_from, *self.range_from.values(), *self.whole}
        shared.update(value.name or "" for node in self.products for value in node.inputs if value is not None)
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            found.setdefault(layer.data.name or "", []).append(layer)
        return {name: layers for name, layers in found.items() if name not in shared}

    def outcome(self) -> tuple[Hashable, ...]:
        """A key of the plan's result: two plans for a graph with the same key write the same file."""
        seen_in_plan = {"layers", "preparation", "fewest_channels", "recurrent_steps", "several_matrices", "shortcuts"}
        left_out = {field.name for field in fields(self.settings)} - seen_in_plan
        if not self.layers and not self.products:
            left_out &= {"weights", "weights_form", "block"}
        elif all(layer.kind == "MatMul" for layer in self.layers):
            left_out -= {"bias"}  # a MatMul has no bias of its own
        rest = tuple((name, repr(getattr(self.settings, name))) for name in sorted(left_out))
        if self.layers or self.products:
            rest = (*rest, ("activations", self.settings.preparation.activations))
        chosen = (self.layers, self.stored, self.dynamic)
        names = tuple(tuple(layer.name for layer in layers) for layers in chosen)
        return (
            names,
            tuple(sorted(self.tensors)),
            tuple(sorted(self.whole)),
            tuple(sorted(self.shortcuts)),
            tuple(sorted(map(node_name, self.recurrent))),
            tuple(sorted(self.beside_layers.items())),
            rest,
        )

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
        settings: The settings of the candidate.
        keep_float: Names of layers that compute in float whatever the settings say: with weights stored as integers,
            or with float weights if the settings only store them as integers.
        tensors: The statistics from calibration; None before calibration. Layers whose inputs no sample reaches, or
            whose inputs hold NaN or infinity, compute in float.
    """
    return _Placer(graph, settings, keep_float, tensors).placed()


class _Placer:
    """Decides layer by layer; see :func:`place` for the arguments."""

    def __init__(
        self,
        graph: ir.Graph,
        settings: Settings,
        keep_float: Collection[str],
        tensors: Mapping[str, TensorStatistics] | None,
    ) -> None:
        self.graph, self.settings, self.keep_float, self.tensors = graph, settings, keep_float, tensors
        self.plan = Plan(settings)
        self.observable = reachable(graph)
        self.made_in_float: set[str | None] = set()
        """The outputs of convolutions that compute in float because they have few input channels."""

    def placed(self) -> Plan:
        """The plan for the graph."""
        kinds = {node.op_type for node in self.graph.all_nodes()} - {*LAYER_KINDS}
        self.plan.beside_layers = {kind: mode for kind, mode in self.settings.layers.items() if kind in kinds}
        for layer in layers(self.graph):
            self._place(layer)
        for node in self.graph.all_nodes():
            if self.settings.activation_products:
                self._place_product(node)
            if self.settings.recurrent_steps and is_standard(node, *RECURRENT):
                self._place_recurrent(node)
        _move_integers(self.plan)
        if self.settings.zero_points_in_biases:
            _shift_zero_points(self.plan)
        if self.settings.shortcuts:
            _find_shortcuts(self.plan)
        return self.plan

    def _place(self, layer: Layer) -> None:
        """Decide on a layer by the mode of its kind (:data:`edgekit_quantize.settings.MODES`)."""
        mode = self.settings.layers.get(layer.kind, "float")
        if mode == "float":
            self.plan.kept_float[layer.name] = f"the target computes {layer.kind} in float"
        elif mode in {"weights", "dynamic"}:
            self._place_weights(layer, mode)
        else:
            self._place_activations(layer, mode)

    def _place_weights(self, layer: Layer, mode: str) -> None:
        """Decide on a layer whose weights are integers, and whose activations have no calibrated range."""
        if layer.name in self.keep_float:
            self.plan.kept_float[layer.name] = TOO_LARGE
        elif mode == "dynamic" and layer.is_plain_product and _may_be_float32(layer.data):
            self.plan.dynamic.append(layer)
        else:
            self.plan.stored.append(layer)

    def _place_activations(self, layer: Layer, mode: str) -> None:
        """Decide on a layer whose activations are integers too, if that is possible and worthwhile."""
        if layer.name in self.keep_float:
            self._store(layer, TOO_LARGE)
        elif _gains_little(layer, self.settings):
            self._store(layer, "it has few input channels, so integers would hardly make it faster")
            self.made_in_float.add(fused_output(layer.output, ACTIVATIONS).name)
        elif layer.kind == "MatMul" and layer.weights().ndim > 2 and not self.settings.several_matrices:
            self._store(layer, "its weights have more than two axes")
        elif layer.kind == "DepthwiseConv" and layer.data.name in self.made_in_float:
            self._store(layer, "its input is computed in float, and integers would hardly make it faster")
        elif (reason := self._why_no_integers(layer)) is not None:
            self._store(layer, reason)
        else:
            self._quantize_input(layer)
            if mode == "both":
                self._quantize_output(layer)

    def _store(self, layer: Layer, why_float: str) -> None:
        """Plan a layer to compute in float with weights stored as integers."""
        self.plan.kept_float[layer.name] = why_float
        self.plan.stored.append(layer)

    def _why_no_integers(self, layer: Layer) -> str | None:
        """Why the layer's input cannot be quantized; None if it can."""
        if not layer.data.name or not _may_be_float32(layer.data):
            return f"its activations are {layer.data.dtype}"
        if home(layer.node) not in self.observable:
            return "it stands inside a Scan"
        if (held := self._beyond_integers(layer.data)) is not None:
            return f"its input holds {held}, which integers cannot represent"
        if not self._is_seen(layer.data):
            return "no sample reached it"
        return None

    def _quantize_input(self, layer: Layer) -> None:
        name = layer.data.name or ""
        self.plan.layers.append(layer)
        self.plan.tensors[name] = layer.data
        if layer.kind in self.settings.preparation.ranges:
            self.plan.rules[name] = self.settings.preparation.ranges[layer.kind]

    def _quantize_output(self, layer: Layer) -> None:
        """Quantize the layer's output, behind the operators fused with the layer, if all readers can take integers."""
        output = fused_output(layer.output, self.settings.fused)
        if not output.name or output.is_graph_output() or not _stays_in(output):
            return
        if self._is_seen(output) and self._beyond_integers(output) is None:
            self.plan.tensors[output.name] = output
            self.plan.whole.add(output.name)

    def _place_product(self, node: ir.Node) -> None:
        """Quantize both operands of a MatMul of two activations, if it computes attention scores."""
        if not is_standard(node, "MatMul") or node.name in self.keep_float or home(node) not in self.observable:
            return
        operands = [value for value in node.inputs if value is not None and constant(value) is None]
        if len(operands) < 2 or not _gives_scores(node) or not all(map(_may_be_float32, operands)):
            return
        if not all(self._is_seen(value) and self._beyond_integers(value) is None for value in operands):
            return
        self.plan.products.append(node)
        for value in operands:
            if value.name and value.name not in self.plan.tensors:
                self.plan.tensors[value.name] = value
                self.plan.rules[value.name] = AROUND_ZERO

    def _place_recurrent(self, node: ir.Node) -> None:
        """Plan to write a recurrent node step by step, if that is possible, and it is large and stores its weights."""
        recurrence = constant(node.inputs[2])
        if self.settings.layers.get(node.op_type) != "weights" or recurrence is None or not takes_steps(node):
            return
        if recurrence[0].size >= self.settings.recurrent_steps:
            self.plan.recurrent.append(node)

    def _is_seen(self, value: ir.Value) -> bool:
        """Whether any sample reached the value, as samples need not take every branch; True before calibration."""
        found = self._statistics(value)
        return found is None or not found.histogram.is_empty

    def _beyond_integers(self, value: ir.Value) -> str | None:
        """What the value held for any sample that is no number, in words; None if all were finite."""
        found = self._statistics(value)
        if found is None or not found.histogram.not_finite:
            return None
        return "NaN" if found.histogram.holds_nan else "infinity"

    def _statistics(self, value: ir.Value) -> TensorStatistics | None:
        return None if self.tensors is None else self.tensors.get(value.name or "")


def _may_be_float32(value: ir.Value) -> bool:
    """Whether a value is float32, or of a type that is not known: models in double precision keep their types."""
    return value.dtype in (None, ir.DataType.FLOAT)


def _gains_little(layer: Layer, settings: Settings) -> bool:
    """Whether a convolution has so few input channels that integers gain little."""
    return layer.kind == "Conv" and layer.weights().shape[1] < settings.fewest_channels


def fused_output(value: ir.Value, fused: Collection[str]) -> ir.Value:
    """The value behind the operators that are fused with the one that computes ``value``."""
    while (node := only_consumer(value)) is not None and is_standard(node, *fused):
        value = node.outputs[0]
    return value


def _stays_in(value: ir.Value) -> bool:
    """Whether no branch or loop captures the value: ONNX Runtime aborts on a DequantizeLinear that one captures."""
    return all(node.graph is value.graph for node, _ in value.uses())


def _gives_scores(node: ir.Node) -> bool:
    """Whether only a Softmax reads the node's output, possibly scaled and masked."""
    reader = only_consumer(node.outputs[0])
    while reader is not None and is_standard(reader, *TO_SOFTMAX):
        reader = only_consumer(reader.outputs[0])
    return reader is not None and is_standard(reader, "Softmax")


def _takes_the_nearest(node: ir.Node) -> bool:
    """Whether a Resize only copies elements (mode ``nearest``), instead of interpolating."""
    mode, coordinates = (node.attributes.get(name) for name in ("mode", "coordinate_transformation_mode"))
    nearest = mode is None or mode.as_string() == "nearest"
    return nearest and (coordinates is None or coordinates.as_string() != "tf_crop_and_resize")


def _move_integers(plan: Plan) -> None:
    """Also quantize tensors that are moved into quantized tensors, with one range for both."""
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


def _shift_zero_points(plan: Plan) -> None:
    """Move zero points into biases and maps, if all readers allow it; then ranges need not be symmetric."""
    in_maps = plan.settings.zero_points_in_maps

    def allows(layer: Layer) -> bool:
        return takes_shift(layer) or (in_maps and takes_map(layer))

    plan.shifted = {name for name, readers in plan.readers().items() if all(map(allows, readers))}
    plan.rules = {name: rule for name, rule in plan.rules.items() if name not in plan.shifted or rule != AROUND_ZERO}


def _find_shortcuts(plan: Plan) -> None:
    """Let an Add read the integers of activations whose integers only convolutions read."""
    plan.shortcuts = {
        name for name, readers in plan.readers().items() if all("Conv" in layer.kind for layer in readers)
    }
