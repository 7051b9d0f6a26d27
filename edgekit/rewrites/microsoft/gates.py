"""Gates and normalizations that ONNX Runtime fuses in networks with gated attention, in standard operators.

They are those of the domain ``com.microsoft`` in ONNX Runtime's document ContribOperators, as its CPU kernels compute
them: in float32, whatever the type of inputs and outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.quantized_operators import MICROSOFT

EPSILON = 1e-5
"""What normalizations add to a mean of squares, if no attribute says otherwise."""
LEAST_SQUARE = 1e-6
"""EngramGate raises the magnitude of a product to at least this before it takes the root."""


class GatedNormalization(Rewrite):
    """``GatedRMSNorm``: root mean square normalization of groups of elements, times an activated gate."""

    name: ClassVar[str] = "gated normalization written out"
    op_types: ClassVar[Sequence[str]] = ("GatedRMSNorm",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """A group is as long as the scale."""
        x, dtype = typed(node.inputs[0])
        scale = node.inputs[1]
        activation = node.attributes.get_string("activation", "silu")
        if activation not in ("silu", "swish", "sigmoid"):
            raise InapplicableError(f"its activation {activation!r} is not known")
        if scale is None or scale.shape is None or not isinstance(scale.shape[0], int) or x.shape is None:
            raise InapplicableError("how long its groups are is not known")
        length = scale.shape[0]
        is_one_group = x.shape[-1] == length
        grouped = wide(build, x) if is_one_group else build("Reshape", wide(build, x), [-1, length])
        unit = build("Mul", of_unit_square(build, grouped, epsilon_of(node)), wide(build, scale))
        unit = unit if is_one_group else build("Reshape", unit, build("Shape", x))
        gate = wide(build, node.inputs[2])
        share = build("Sigmoid", gate)
        factor = share if activation == "sigmoid" else build("Mul", gate, share)
        return [build.cast(build("Mul", unit, factor), dtype)]


class GatedSum(Rewrite):
    """``GatedAdd``: ``x + y · gate``."""

    name: ClassVar[str] = "gated sum written out"
    op_types: ClassVar[Sequence[str]] = ("GatedAdd",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The product is rounded before it is added."""
        return [build("Add", node.inputs[0], build("Mul", node.inputs[1], node.inputs[2]))]


class QuickGelu(Rewrite):
    """``QuickGelu``: ``x · sigmoid(alpha · x)``, as CLIP activates."""

    name: ClassVar[str] = "QuickGelu written out"
    op_types: ClassVar[Sequence[str]] = ("QuickGelu",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Without an attribute ``alpha`` is 1.702."""
        x, dtype = typed(node.inputs[0])
        data = wide(build, x)
        share = build("Sigmoid", build("Mul", data, np.float32(node.attributes.get_float("alpha", 1.702))))
        return [build.cast(build("Mul", data, share), dtype)]


class ScaledSilu(Rewrite):
    """``ScaledSiLU``: ``z · sigmoid(z)`` of a multiple of x."""

    name: ClassVar[str] = "scaled SiLU written out"
    op_types: ClassVar[Sequence[str]] = ("ScaledSiLU",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The scale is an attribute, or an input, which takes precedence."""
        x, dtype = typed(node.inputs[0])
        given = input_at(node, 1)
        scale = np.float32(node.attributes.get_float("alpha", 1.0)) if given is None else wide(build, given)
        scaled = build.cast(build("Mul", wide(build, x), scale), dtype)
        return [build("Mul", scaled, build("Sigmoid", scaled))]


class EngramGate(Rewrite):
    """``sigmoid`` of the signed root of the product of normalized keys and queries, times the values."""

    name: ClassVar[str] = "Engram gate written out"
    op_types: ClassVar[Sequence[str]] = ("EngramGate",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """For keys and queries [b, s, streams, width], and values [b, s, width]."""
        key, dtype = typed(node.inputs[0])
        width = None if key.shape is None else key.shape[-1]
        if not isinstance(width, int):
            raise InapplicableError("the width of its keys is not known")
        epsilon = epsilon_of(node)
        sides = [
            build(
                "Mul", of_unit_square(build, wide(build, node.inputs[place]), epsilon), wide(build, node.inputs[scale])
            )
            for place, scale in ((0, 3), (1, 4))
        ]
        product = build.reduce("ReduceSum", build("Mul", *sides), [-1])
        product = build("Mul", product, np.float32(1 / math.sqrt(width)))
        root = build("Sqrt", build("Max", build("Abs", product), np.float32(LEAST_SQUARE)))
        gate = build("Sigmoid", build("Mul", build("Sign", product), root))
        gated = build("Mul", gate, build.unsqueeze(wide(build, node.inputs[2]), [2]))
        outputs = [build.cast(gated, dtype)]
        if len(node.outputs) > 1:
            unit = build("Mul", of_unit_square(build, gated, epsilon), wide(build, node.inputs[5]))
            outputs.append(build.cast(unit, dtype))
        return outputs


class BranchwiseNormalization(Rewrite):
    """``BranchwiseRMSNorm``: root mean square normalization of each branch."""

    name: ClassVar[str] = "normalization of branches written out"
    op_types: ClassVar[Sequence[str]] = ("BranchwiseRMSNorm",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Branches are an axis of their own, or parts of the last one; a scale may be shared by all."""
        x, dtype = typed(node.inputs[0])
        grouped, branches, width = streams(node, build)
        unit = of_unit_square(build, grouped, epsilon_of(node))
        scale = input_at(node, 1)
        if scale is not None:
            if scale.shape is None or not scale.shape.is_static():
                raise InapplicableError("the sizes of its scale are not known")
            is_shared = int(np.prod(scale.shape.numpy())) == width
            factor = build("Reshape", wide(build, scale), [width] if is_shared else [branches, width])
            unit = build("Mul", unit, factor)
        return [build.cast(build("Reshape", unit, build("Shape", x)), dtype)]


class MixedStreams(Rewrite):
    """``HyperConnectionPreMix``: the sum of streams, each times its gate."""

    name: ClassVar[str] = "sum of gated streams written out"
    op_types: ClassVar[Sequence[str]] = ("HyperConnectionPreMix",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """A gate applies to a stream, or to each of its elements."""
        _, dtype = typed(node.inputs[0])
        grouped, branches, width = streams(node, build)
        gated = build("Mul", grouped, gates(node, build, 1, branches, width))
        total = build.reduce("ReduceSum", gated, [-2], keepdims=False)
        scale = node.attributes.get_float("reduction_scale", 1.0)
        return [build.cast(total if scale == 1.0 else build("Mul", total, np.float32(scale)), dtype)]


class FedStreams(Rewrite):
    """``HyperConnectionPostMix``: streams mixed with each other, and a block's output added to each through a gate."""

    name: ClassVar[str] = "streams that a block feeds written out"
    op_types: ClassVar[Sequence[str]] = ("HyperConnectionPostMix",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Without a matrix, streams are not mixed with each other."""
        x, dtype = typed(node.inputs[0])
        grouped, branches, width = streams(node, build)
        mix = input_at(node, 3)
        kept = grouped
        if mix is not None:
            if mix.shape is None:
                raise InapplicableError("the shape of its matrix is not known")
            axes = list(range(mix.shape.rank()))
            turned = build("Transpose", wide(build, mix), perm=[*axes[:-2], axes[-1], axes[-2]])
            kept = build("MatMul", turned, grouped)
        block = build.unsqueeze(wide(build, node.inputs[1]), [-2])
        total = build("Add", kept, build("Mul", gates(node, build, 2, branches, width), block))
        return [build.cast(build("Reshape", total, build("Shape", x)), dtype)]


def streams(node: ir.Node, build: NodeBuilder) -> tuple[ir.Value, int, int]:
    """Returns the first input in float32 as [..., branches, width], and these two sizes.

    Raises:
        InapplicableError: The two sizes are not known.
    """
    x = node.inputs[0]
    sizes = [] if x is None or x.shape is None else list(x.shape)
    branches = node.attributes.get_int("num_branches", 0)
    if not branches:
        if len(sizes) < 2 or not isinstance(sizes[-2], int) or not isinstance(sizes[-1], int):
            raise InapplicableError("how many branches it has, or their width, is not known")
        return wide(build, x), sizes[-2], sizes[-1]
    if not sizes or not isinstance(sizes[-1], int):
        raise InapplicableError("the width of its branches is not known")
    width = sizes[-1] // branches
    shape = [*[0] * (len(sizes) - 1), branches, width]
    return build("Reshape", wide(build, x), shape), branches, width


def gates(node: ir.Node, build: NodeBuilder, place: int, branches: int, width: int) -> ir.Value:
    """Returns the gates of streams in float32, in a shape that multiplies [..., branches, width].

    Raises:
        InapplicableError: The shape of the gates is not known.
    """
    given, x = node.inputs[place], node.inputs[0]
    if given is None or given.shape is None or x is None or x.shape is None or not isinstance(given.shape[-1], int):
        raise InapplicableError("the shape of its gates is not known")
    leading = x.shape.rank() - (1 if node.attributes.get_int("num_branches", 0) else 2)
    last, gate = given.shape[-1], wide(build, given)
    if given.shape.rank() == leading + 2:
        return gate
    if last == branches * width and width != 1:
        return build("Reshape", gate, [*[0] * leading, branches, width])
    return build.unsqueeze(gate, [-1])


def wide(build: NodeBuilder, x: ir.Value | None) -> ir.Value:
    """Returns numbers as float32."""
    return build.cast(x, ir.DataType.FLOAT)


def of_unit_square(build: NodeBuilder, x: ir.Value, epsilon: float) -> ir.Value:
    """Returns x, divided by the root of the mean of squares along the last axis."""
    mean = build.reduce("ReduceMean", build("Mul", x, x), [-1])
    return build("Div", x, build("Sqrt", build("Add", mean, np.float32(epsilon))))


def epsilon_of(node: ir.Node) -> float:
    """Returns what a normalization adds to a mean of squares."""
    return node.attributes.get_float("epsilon", EPSILON)
