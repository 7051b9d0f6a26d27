"""MoE and QMoE of ``com.microsoft``: mixtures of experts as Mixtral, Phi-3.5-MoE, Qwen3-MoE and gpt-oss have them.

By ONNX Runtime's document ContribOperators, as its CPU kernels compute them: a token goes through the experts whose
scores are the highest, and what they give is summed in the shares that a softmax of the scores has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.microsoft.block_lookups import BLOCKS_SINCE, elements
from edgekit.rewrites.quantized_operators import MICROSOFT

COUNTED_SINCE = 13
"""The opset from which Softmax is along one axis; TopK takes its count as an input since the one before."""
INTERLEAVED = 1
"""The ``swiglu_fusion`` with which the two products of a gated unit alternate along an axis."""
_ROUTER_WEIGHTS = 14
"""The index of QMoE's input with the shares, if they do not follow from the scores."""


class MixtureOfExperts(Rewrite):
    """The chosen experts of each token, or all experts if the tokens choose at least as many as there are."""

    name: ClassVar[str] = "mixture of experts written out"
    op_types: ClassVar[Sequence[str]] = ("MoE", "QMoE")
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """Whether there are two layers with weights of floats or integers, and gated units as in the CPU kernels."""
        is_gated = node.attributes.get_string("activation_type", "relu") == "swiglu"
        return (
            not node.attributes.get_int("use_sparse_mixer", 0)
            and node.attributes.get_string("quant_type", "int") == "int"
            and node.attributes.get_int("swiglu_fusion", 0) == (INTERLEAVED if is_gated else 0)
        )

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Columns are tokens, so that the weights stay as they are stored."""
        if build.opset < COUNTED_SINCE:
            raise InapplicableError(f"opset {build.opset} has no softmax along one axis")
        experts = _Experts.of(node, build)
        x, dtype = typed(node.inputs[0])
        places, shares = _routed(node, build, experts.count)
        rows = build("Reshape", build.cast(x, ir.DataType.FLOAT), [-1, experts.width])
        chosen = node.attributes.get_int("k", 1)
        tokens = experts.tokens(node)
        if tokens is not None and tokens * chosen < experts.count:
            total = self._of_chosen(build, experts, rows, places, shares, chosen)
        else:
            total = self._of_all(build, experts, rows, places, shares)
        return [build.cast(build("Reshape", total, build("Shape", x)), dtype)]

    def _of_all(
        self, build: NodeBuilder, experts: _Experts, rows: ir.Value, places: ir.Value, shares: ir.Value
    ) -> ir.Value:
        """Returns the sum of what all experts give [experts, width, tokens], times their shares, which are mostly 0."""
        given = experts.applied(build, build("Transpose", rows, perm=[1, 0]), None)
        spread = build("OneHot", places, np.array([experts.count]), np.array([0, 1], np.float32), axis=-1)
        each = build.reduce("ReduceSum", build("Mul", spread, build.unsqueeze(shares, [2])), [1], keepdims=False)
        by_expert = build.unsqueeze(build("Transpose", each, perm=[1, 0]), [1])
        total = build.reduce("ReduceSum", build("Mul", given, by_expert), [0], keepdims=False)
        return build("Transpose", total, perm=[1, 0])

    def _of_chosen(
        self, build: NodeBuilder, experts: _Experts, rows: ir.Value, places: ir.Value, shares: ir.Value, chosen: int
    ) -> ir.Value:
        """Returns the sum of what the experts of each token give, with weights that are looked up."""
        repeated = build("Concat", *[build.unsqueeze(rows, [1])] * chosen, axis=1)
        columns = build("Reshape", repeated, [-1, experts.width, 1])
        given = experts.applied(build, columns, build("Reshape", places, [-1]))
        by_token = build("Reshape", given, [-1, chosen, experts.width])
        return build.reduce("ReduceSum", build("Mul", by_token, build.unsqueeze(shares, [2])), [1], keepdims=False)


def _routed(node: ir.Node, build: NodeBuilder, count: int) -> tuple[ir.Value, ir.Value]:
    """Returns which experts a token has, of equal ones the last, and their shares: both [tokens, k].

    MoE compares probabilities, which are equal more often than the scores that QMoE compares.
    """
    is_quantized, weights = node.op_type == "QMoE", input_at(node, _ROUTER_WEIGHTS)
    scores = build.cast(node.inputs[1], ir.DataType.FLOAT)
    compared = scores if is_quantized else build("Softmax", scores, axis=1)
    backwards = build("Gather", compared, np.arange(count)[::-1], axis=1)
    best, found = build.several(2, "TopK", backwards, [min(count, node.attributes.get_int("k", 1))], axis=1)
    places = build("Sub", np.int64(count - 1), found)
    if is_quantized and weights is None:
        return places, build("Softmax", best, axis=1)
    if is_quantized:
        best = build("GatherElements", build.cast(weights, ir.DataType.FLOAT), places, axis=1)
    if node.attributes.get_int("normalize_routing_weights", 0):
        best = build("Div", best, build.reduce("ReduceSum", best, [1]))
    return places, best


@dataclass(frozen=True)
class _Experts:
    """The two layers of every expert."""

    first: ir.Value
    """[experts, hidden, width]; with gated units, twice as many rows."""
    first_bias: ir.Value | None
    second: ir.Value
    """[experts, width, hidden]."""
    second_bias: ir.Value | None
    count: int
    width: int
    activation: str
    alpha: float
    beta: float
    limit: float | None

    @staticmethod
    def of(node: ir.Node, build: NodeBuilder) -> _Experts:
        """Returns the experts of a node."""
        is_quantized = node.op_type == "QMoE"
        third = 8 if is_quantized else 6
        if input_at(node, third) is not None:
            raise InapplicableError("its experts have a third layer, which the operator's CPU kernel does not compute")
        if is_quantized:
            first, second = (_dequantized(node, build, *each) for each in ((2, 11, "fc1"), (5, 12, "fc2")))
        else:
            first, second = (build.cast(node.inputs[place], ir.DataType.FLOAT) for place in (2, 4))
        biases = (4, 7) if is_quantized else (3, 5)
        given = [input_at(node, place) for place in biases]
        first_bias, second_bias = (None if each is None else build.cast(each, ir.DataType.FLOAT) for each in given)
        x, weights = node.inputs[0], node.inputs[2]
        if x is None or x.shape is None or weights is None or weights.shape is None:
            raise InapplicableError("the shapes of its inputs are not known")
        count, width = weights.shape[0], x.shape[-1]
        if not isinstance(count, int) or not isinstance(width, int):
            raise InapplicableError("how many experts it has, or how wide its tokens are, is not known")
        if not is_quantized and weights.shape[2] != width:
            raise InapplicableError("its weights are transposed, as the operator's CPU kernel does not read them")
        activation = node.attributes.get_string("activation_type", "relu")
        if activation not in ("relu", "gelu", "silu", "swiglu", "identity"):
            raise InapplicableError(f"its activation {activation!r} is not known")
        limit = node.attributes.get_float("swiglu_limit", np.inf)
        return _Experts(
            first,
            first_bias,
            second,
            second_bias,
            count,
            width,
            activation,
            node.attributes.get_float("activation_alpha", 1.0),
            node.attributes.get_float("activation_beta", 0.0),
            None if np.isinf(limit) else limit,
        )

    def tokens(self, node: ir.Node) -> int | None:
        """Returns how many tokens there are, or None if that is not known."""
        x = node.inputs[0]
        sizes = [] if x is None or x.shape is None else list(x.shape)[:-1]
        known = [size for size in sizes if isinstance(size, int)]
        return int(np.prod(known)) if sizes and len(known) == len(sizes) else None

    def applied(self, build: NodeBuilder, columns: ir.Value, places: ir.Value | None) -> ir.Value:
        """Returns what experts, all or those at ``places``, give for columns [width, tokens] or [tokens, width, 1]."""

        def taken(value: ir.Value) -> ir.Value:
            return value if places is None else build("Gather", value, places, axis=0)

        inside = build("MatMul", taken(self.first), columns)
        if self.first_bias is not None:
            inside = build("Add", inside, build.unsqueeze(taken(self.first_bias), [2]))
        given = build("MatMul", taken(self.second), self._activated(build, inside))
        if self.second_bias is not None:
            given = build("Add", given, build.unsqueeze(taken(self.second_bias), [2]))
        return given

    def _activated(self, build: NodeBuilder, x: ir.Value) -> ir.Value:
        """Returns the activation of x; the products of gated units alternate along the middle axis."""
        if self.activation == "identity":
            return x
        if self.activation == "relu":
            return build("Relu", x)
        if self.activation == "silu":
            return build("Mul", x, build("Sigmoid", x))
        if self.activation == "gelu":
            return _gelu(build, x)
        gate, linear = (
            build("Slice", x, np.array([first]), np.array([1 << 31]), np.array([1]), np.array([2])) for first in (0, 1)
        )
        if self.limit is not None:
            gate = build("Min", gate, np.float32(self.limit))
            linear = build("Clip", linear, np.float32(-self.limit), np.float32(self.limit))
        share = build("Sigmoid", build("Mul", gate, np.float32(self.alpha)))
        return build("Mul", build("Mul", gate, share), build("Add", linear, np.float32(self.beta)))


def _gelu(build: NodeBuilder, x: ir.Value) -> ir.Value:
    """Returns the GELU, approximated with tanh as in the kernel."""
    cube = build("Mul", build("Mul", x, x), x)
    inner = build("Add", x, build("Mul", cube, np.float32(0.044715)))
    bent = build("Tanh", build("Mul", inner, np.float32(np.sqrt(2 / np.pi))))
    return build("Mul", build("Mul", x, np.float32(0.5)), build("Add", bent, np.float32(1)))


def _dequantized(node: ir.Node, build: NodeBuilder, place: int, zero_points_at: int, layer: str) -> ir.Value:
    """Returns a layer's weights, one or two in a byte: they stay in 4 or 8 bits, with a scale for each block."""
    bits = node.attributes.get_int(f"{layer}_expert_weight_bits", node.attributes.get_int("expert_weight_bits", 4))
    packed, scales = constant_input(node, place), input_at(node, place + 1)
    if build.opset < BLOCKS_SINCE or bits not in (4, 8):
        raise InapplicableError(f"opset {build.opset} has no blocks of quantized numbers of {bits} bits")
    if packed is None or scales is None or scales.shape is None or not scales.shape.is_static():
        raise InapplicableError("its weights, or the size of their scales, are not known")
    numbers = elements(packed, bits)
    sizes = list(scales.shape.numpy())
    zero_points = constant_input(node, zero_points_at)
    if zero_points is None and input_at(node, zero_points_at) is not None:
        raise InapplicableError("its zero points are not known")
    middle = np.full(sizes, 1 << (bits - 1), numbers.dtype)
    steps = middle if zero_points is None else elements(zero_points, bits)[..., : sizes[-1]]
    wide = build.cast(scales, ir.DataType.FLOAT)
    if len(sizes) == 2:
        wide, steps = build.unsqueeze(wide, [2]), steps[..., np.newaxis]
    length = node.attributes.get_int("block_size", 0) or numbers.shape[-1]
    return build("DequantizeLinear", numbers, wide, steps, axis=2, block_size=length)
