"""Which tensors are quantized: what the target's data file says, applied to a graph.

A target keeps ``placement.json`` beside its module::

    {"format": 1, "default": {SETTINGS}, "profiles": {"<profile name>": {SETTINGS that differ}}}

with the settings that are the fields of :class:`Settings`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import onnx_ir as ir

from edgekit.errors import InternalError
from edgekit_quantize.graph import constant, is_standard, only_consumer
from edgekit_quantize.layers import Layer, layers

MODES = ("float", "input", "both")
"""A layer stays float; or its activation input is quantized; or its output as well."""


@dataclass(frozen=True)
class Settings:
    """What a target's runtime fuses and prefers. The defaults are what every runtime computes right."""

    activations: str = "uint8"
    """Integer type of activations."""
    symmetric_activations: bool = False
    """Whether the zero point must be the middle of the type."""
    weights: str = "int8"
    """Integer type of weights; always symmetric."""
    bias: str = "float"
    """``int32`` where the runtime's integer kernels want biases as integers, else ``float``."""
    layers: Mapping[str, str] = field(
        default_factory=lambda: {"Conv": "input", "Gemm": "input", "MatMul": "input", "ConvTranspose": "float"}
    )
    """Mode of every kind of layer (see :data:`MODES`); kinds that are not named stay float."""
    activation_products: bool = False
    """Whether a MatMul of two activations is quantized."""
    fused: tuple[str, ...] = ("Relu", "Clip")
    """Operators that the runtime computes inside the layer before them."""
    moves: tuple[str, ...] = ("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
    """Operators that hand integers through unchanged."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Settings:
        """The settings that a target's data file gives.

        Raises:
            edgekit.errors.InternalError: The data have a field that is none.
        """
        known = {f.name for f in fields(cls)}
        for name in data:
            if name not in known:
                raise InternalError(
                    f"no setting {name!r}", subject="placement data", expected=", ".join(sorted(known))
                )
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        return cls(**values)

    def with_float(self, *kinds: str) -> Settings:
        """The same, but with these kinds of layers in float."""
        return replace(self, layers={kind: "float" if kind in kinds else m for kind, m in self.layers.items()})


@dataclass
class Plan:
    """What will be quantized in a graph."""

    settings: Settings
    layers: list[Layer] = field(default_factory=list)
    kept_float: dict[str, str] = field(default_factory=dict)
    """Layers that stay float, by name, and why."""
    tensors: dict[str, ir.Value] = field(default_factory=dict)
    """The activations to quantize, by name."""
    whole: set[str] = field(default_factory=set)
    """Those of them that no consumer sees in float."""
    range_from: dict[str, str] = field(default_factory=dict)
    """Where a tensor takes its range from another one, because integers are only moved from that to it."""
    products: list[ir.Node] = field(default_factory=list)
    """MatMul nodes whose operands are both activations."""
    moved: list[ir.Node] = field(default_factory=list)
    """Nodes that move integers."""

    def observed(self) -> list[str]:
        """The tensors whose ranges are needed."""
        return sorted({self.range_from.get(name, name) for name in self.tensors})


def place(graph: ir.Graph, settings: Settings, keep_float: Collection[str] = ()) -> Plan:
    """Decide what is quantized.

    Args:
        graph: The prepared graph; it is not changed.
        settings: What the target prefers.
        keep_float: Names of layers that stay float whatever the settings say.
    """
    plan = Plan(settings)
    for layer in layers(graph):
        mode = settings.layers.get(layer.kind, "float")
        if mode == "float":
            plan.kept_float[layer.name] = f"the target computes {layer.kind} in float"
        elif layer.name in keep_float:
            plan.kept_float[layer.name] = "kept in float"
        elif layer.data.name is None or layer.data.dtype not in (None, ir.DataType.FLOAT):
            plan.kept_float[layer.name] = f"its activations are {layer.data.dtype}"
        else:
            plan.layers.append(layer)
            plan.tensors[layer.data.name] = layer.data
            if mode == "both":
                output = fused_output(layer.output, settings.fused)
                if not output.is_graph_output() and output.name is not None:
                    plan.tensors[output.name] = output
                    plan.whole.add(output.name)
    if settings.activation_products:
        _products(graph, plan, keep_float)
    _moves(plan)
    return plan


def fused_output(value: ir.Value, fused: Collection[str]) -> ir.Value:
    """The value behind the operators that are computed together with the one that made ``value``."""
    while (node := only_consumer(value)) is not None and is_standard(node, *fused):
        value = node.outputs[0]
    return value


def _products(graph: ir.Graph, plan: Plan, keep_float: Collection[str]) -> None:
    for node in graph:
        operands = [value for value in node.inputs if value is not None and constant(value) is None]
        if is_standard(node, "MatMul") and len(operands) == 2 and node.name not in keep_float:
            plan.products.append(node)
            plan.tensors.update({value.name: value for value in operands if value.name})


def _moves(plan: Plan) -> None:
    """Quantize what is moved into a quantized tensor too, with one range for both ends."""
    waiting = list(plan.tensors.values())
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if node is None or not is_standard(node, *plan.settings.moves) or value is not node.outputs[0]:
            continue
        source = node.inputs[0]
        if source is None or source.name is None or value.name is None or constant(source) is not None:
            continue
        plan.moved.append(node)
        if source.name not in plan.tensors:
            plan.tensors[source.name] = source
            waiting.append(source)
        plan.range_from[value.name] = source.name
    for name in plan.range_from:
        root = name
        while root in plan.range_from:
            root = plan.range_from[root]
        plan.range_from[name] = root
