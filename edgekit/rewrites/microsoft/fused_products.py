"""Products of matrices and convolutions that ONNX Runtime's optimizer fuses with what stands around them, taken apart.

They are those of the domain ``com.microsoft`` in ONNX Runtime's document ContribOperators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.quantized_operators import MICROSOFT

ACTIVATIONS = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""Operators that a product may end with, and their attributes."""

OF_CONVOLUTIONS = {name: (parameters, 1) for name, parameters in ACTIVATIONS.items()} | {
    "Clip": (("min", "max"), 11),
    "HardSwish": ((), 14),
}
"""Operators that a convolution may end with: their parameters in order, and the opset since which they are built so."""


class ActivatedGemm(Rewrite):
    """``FusedGemm``: a Gemm and an activation."""

    name: ClassVar[str] = "Gemm before its activation"
    op_types: ClassVar[Sequence[str]] = ("FusedGemm",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For activations in :data:`ACTIVATIONS`."""
        activation = node.attributes.get_string("activation", "")
        if activation not in ACTIVATIONS:
            raise InapplicableError(f"its activation {activation!r} is not known")
        given: dict[str, Any] = {name: attribute.value for name, attribute in node.attributes.items()}
        own = {name: value for name, value in given.items() if not name.startswith("activation")}
        parameters: dict[str, Any] = {name: given.get(f"activation_{name}") for name in ACTIVATIONS[activation]}
        return [build(activation, build("Gemm", *node.inputs, **own), **parameters)]


class ActivatedConv(Rewrite):
    """``FusedConv``: a Conv, what is added to it, and an activation."""

    name: ClassVar[str] = "Conv before its activation"
    op_types: ClassVar[Sequence[str]] = ("FusedConv",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For activations in :data:`ACTIVATIONS`, ``Clip`` and ``HardSwish``, with as many parameters as they have."""
        activation = node.attributes.get_string("activation", "")
        names, since = OF_CONVOLUTIONS.get(activation, ((), math.inf))
        parameters = node.attributes.get_floats("activation_params", ())
        if activation and (build.opset < since or len(parameters) != len(names)):
            raise InapplicableError(f"its activation {activation!r} is not known, or has other parameters")
        _, dtype = typed(node.inputs[0])
        given: dict[str, Any] = {name: attribute.value for name, attribute in node.attributes.items()}
        own = {name: value for name, value in given.items() if not name.startswith("activation")}
        result = build("Conv", *node.inputs[:3], **own)
        if (added := input_at(node, 3)) is not None:
            result = build("Add", result, added)
        if not activation:
            return [result]
        if activation == "Clip":
            return [build("Clip", result, *(np.asarray(limit, dtype.numpy()) for limit in parameters))]
        settings: dict[str, Any] = dict(zip(names, parameters, strict=True))
        return [build(activation, result, **settings)]


class TransposedProduct(Rewrite):
    """``FusedMatMul``, and ``TransposeMatMul``, its earlier name: a product of transposed factors, times a number."""

    name: ClassVar[str] = "product of transposed factors"
    op_types: ClassVar[Sequence[str]] = ("FusedMatMul", "TransposeMatMul")
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The first axis of a factor may be the rows of its matrices, and its matrices may be transposed."""
        factors = [self._factor(node, build, place, letter) for place, letter in enumerate("AB")]
        product = build("MatMul", *factors)
        alpha = node.attributes.get_float("alpha", 1.0)
        if alpha == 1.0:
            return [product]
        _, dtype = typed(node.inputs[0])
        return [build("Mul", product, np.asarray(alpha, dtype.numpy()))]

    def _factor(self, node: ir.Node, build: NodeBuilder, place: int, letter: str) -> ir.Value | None:
        value = node.inputs[place]
        is_transposed = node.attributes.get_int(f"trans{letter}", 0) == 1
        is_led_by_rows = node.attributes.get_int(f"transBatch{letter}", 0) == 1
        if not (is_transposed or is_led_by_rows):
            return value
        if value is None or value.shape is None:
            raise InapplicableError("how many axes its factors have is not known")
        axes = list(range(value.shape.rank()))
        if len(axes) < 2:
            return value
        if is_led_by_rows:
            axes = [*axes[1:-1], 0, axes[-1]]
        if is_transposed:
            axes[-2:] = axes[:-3:-1]
        return build("Transpose", value, perm=axes)
