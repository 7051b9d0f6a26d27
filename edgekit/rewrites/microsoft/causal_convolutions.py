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

_SMOOTH = ("silu", "swish")


class CausalConvolution(Rewrite):
    """A convolution of each channel over the last steps; the steps of the state precede the new ones."""

    name: ClassVar[str] = "causal convolution written out"
    op_types: ClassVar[Sequence[str]] = ("CausalConvWithState",)
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """Whether there is one axis of steps, and the only state is that after the last step."""
        return node.attributes.get_int("ndim", 1) == 1 and not node.attributes.get_int("state_window", 0)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The state holds the steps that the convolution looks back at; without one, zeros precede the first step."""
        weights = input_at(node, 1)
        if weights is None or weights.shape is None or not weights.shape.is_static():
            raise InapplicableError("the sizes of its weights are not known")
        activation = node.attributes.get_string("activation", "none")
        if activation not in ("none", *_SMOOTH):
            raise InapplicableError(f"its activation {activation!r} is not known")
        channels, _, width = weights.shape.numpy()
        dilation = node.attributes.get_int("dilation", 1)
        reach = (width - 1) * dilation
        is_last = node.attributes.get_int("channels_last", 0) == 1
        axis, x, past = 1 if is_last else 2, node.inputs[0], input_at(node, 3)
        pads = [reach if place == axis else 0 for place in range(6)]
        steps = build.pad(x, pads) if past is None else build("Concat", past, x, axis=axis)
        by_channel = build("Transpose", steps, perm=[0, 2, 1]) if is_last else steps
        result = build("Conv", by_channel, weights, input_at(node, 2), group=channels, dilations=[dilation])
        if activation in _SMOOTH:
            result = build("Mul", result, build("Sigmoid", result))
        result = build("Transpose", result, perm=[0, 2, 1]) if is_last else result
        return [result, build.slice(steps, [-reach], [1 << 31], [axis])][: len(node.outputs)]
