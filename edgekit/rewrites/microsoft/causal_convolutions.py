"""CausalConvWithState of ``com.microsoft``: the short convolutions of LFM2 and of linear attention, written out.

By ONNX Runtime's document ContribOperators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.quantized_operators import MICROSOFT

_STEPS = 2
"""Axis of the steps in [b, channels, s]."""
_SMOOTH = ("silu", "swish")


class CausalConvolution(Rewrite):
    """A convolution of each channel over the last steps, those of the state before the new ones."""

    name: ClassVar[str] = "causal convolution written out"
    op_types: ClassVar[Sequence[str]] = ("CausalConvWithState",)
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """One axis of steps, and a state that keeps what the convolution looks back at."""
        return node.attributes.get_int("ndim", 1) == 1 and not node.attributes.get_int("state_window", 0)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The state is given; it ends with the last steps afterwards."""
        weights, past = input_at(node, 1), input_at(node, 3)
        if past is None or weights is None or weights.shape is None or not weights.shape.is_static():
            raise InapplicableError("it has no state, or the sizes of its weights are not known")
        activation = node.attributes.get_string("activation", "none")
        if activation not in ("none", *_SMOOTH):
            raise InapplicableError(f"its activation {activation!r} is not known")
        channels, _, width = weights.shape.numpy()
        steps = build("Concat", past, node.inputs[0], axis=_STEPS)
        result = build("Conv", steps, weights, input_at(node, 2), group=channels)
        if activation in _SMOOTH:
            result = build("Mul", result, build("Sigmoid", result))
        return [result, build.slice(steps, [1 - width], [1 << 31], [_STEPS])]
