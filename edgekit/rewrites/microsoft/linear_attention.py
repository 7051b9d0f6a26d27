"""LinearAttention of ``com.microsoft`` and its gates, which Qwen3-Next, GLA, RetNet and RWKV-6 are exported with.

By ONNX Runtime's document ContribOperators, as its CPU kernels compute them: a state of keys by values for each head,
which every step decays and adds to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.microsoft.transformer_operators import size_of
from edgekit.rewrites.quantized_operators import MICROSOFT

SCAN_SINCE = 9
"""The opset from which a Scan has no axis of batches of its own."""
DECAYING = ("gated", "gated_delta")
CORRECTING = ("delta", "gated_delta")
RULES = ("linear", "delta", "gated", "gated_delta")


class LinearAttention(Rewrite):
    """The recurrence, one step after the other: a Scan, or the step itself if there is only one."""

    name: ClassVar[str] = "linear attention step by step"
    op_types: ClassVar[Sequence[str]] = ("LinearAttention",)
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """Whether the only state is that after the last step."""
        return not node.attributes.get_int("state_window", 0)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Without a past, the state begins with zeros."""
        if build.opset < SCAN_SINCE:
            raise InapplicableError(f"opset {build.opset} has no Scan over whole batches")
        heads = _Heads.of(node)
        steps = heads.steps(node, build)
        state = input_at(node, 3)
        if state is None:
            sizes = [heads.shared, heads.key_width, heads.value_width]
            shape = build("Concat", size_of(build, node.inputs[0], 0), sizes, axis=0)
            state = build("Expand", np.float32(0), shape)
        if heads.count_of_steps == 1:
            state, mixed = heads.step(build, state, [build.squeeze(each, [0]) for each in steps])
            mixed = build.unsqueeze(mixed, [0])
        else:
            state, mixed = build.several(
                2, "Scan", state, *steps, body=heads.body(build.inner("Scan"), steps), num_scan_inputs=len(steps)
            )
        by_batch = build("Transpose", mixed, perm=[1, 0, 2, 3, 4])
        return [build("Reshape", by_batch, [0, 0, heads.outputs * heads.value_width]), state]


@dataclass(frozen=True)
class _Heads:
    """How many heads there are, how wide they are, and what a step does."""

    queries: int
    shared: int
    """The number of heads of keys and values."""
    key_width: int
    value_width: int
    batch: int | None
    count_of_steps: int | None
    decay_width: int
    """The decays of a head: one, or one for each element of its key; 0 without any."""
    rates: int
    """The update rates of a step: one, or one for each head; 0 without any."""
    scale: float

    @staticmethod
    def of(node: ir.Node) -> _Heads:
        """Returns the heads of a node."""
        rule = node.attributes.get_string("update_rule", "gated_delta")
        if rule not in RULES:
            raise InapplicableError(f"its update rule {rule!r} is not known")
        queries, shared = node.attributes.get_int("q_num_heads"), node.attributes.get_int("kv_num_heads")
        query, dtype = typed(node.inputs[0])
        if dtype != ir.DataType.FLOAT or query.shape is None:
            raise InapplicableError("its inputs are not float32, or their shapes are not known")
        key_width, value_width = _width(node, 1) // shared, _width(node, 2) // shared
        if _width(node, 0) != queries * key_width or max(queries, shared) % min(queries, shared):
            raise InapplicableError("its heads do not share keys and values evenly")
        batch, steps, _ = (size if isinstance(size, int) else None for size in query.shape)
        decay_width = _width(node, 4) // shared if rule in DECAYING else 0
        rates = _width(node, 5) if rule in CORRECTING else 0
        scale = node.attributes.get_float("scale", 0.0) or 1 / math.sqrt(key_width)
        return _Heads(queries, shared, key_width, value_width, batch, steps, decay_width, rates, scale)

    @property
    def outputs(self) -> int:
        """The number of heads of the result."""
        return max(self.queries, self.shared)

    def steps(self, node: ir.Node, build: NodeBuilder) -> list[ir.Value]:
        """Returns queries, keys, values, and decays and rates if there are any, by step: [s, b, heads, …, …]."""
        group = max(1, self.queries // self.shared)
        sizes = [
            (0, [min(self.queries, self.shared), group, self.key_width]),
            (1, [self.shared, self.key_width, 1]),
            (2, [self.shared, 1, self.value_width]),
            (4, [self.shared, self.decay_width, 1]),
            (5, [self.rates, 1, 1]),
        ]
        given = [(place, size) for place, size in sizes if all(size)]
        apart = [build("Reshape", input_at(node, place), [0, 0, *size]) for place, size in given]
        apart[0] = build("Mul", apart[0], np.float32(self.scale))
        return [build("Transpose", each, perm=[1, 0, 2, 3, 4]) for each in apart]

    def body(self, build: NodeBuilder, steps: Sequence[ir.Value]) -> ir.Graph:
        """Returns the body of a Scan, from the state and a step to the next state and what is read of it."""
        names = ["query", "key", "value", *["decay"] * bool(self.decay_width), *["rate"] * bool(self.rates)]
        state = ir.val("state", ir.DataType.FLOAT, (self.batch, self.shared, self.key_width, self.value_width))
        fed = [ir.val(name, ir.DataType.FLOAT) for name in names[: len(steps)]]
        return build.graph([state, *fed], list(self.step(build, state, fed)))

    def step(self, build: NodeBuilder, state: ir.Value, step: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
        """Returns the next state [b, heads, keys, values], and what queries read of it [b, heads, group, values]."""
        query, key, value, *rest = step
        if self.decay_width:
            state = build("Mul", state, build("Exp", rest.pop(0)))
        if self.rates:
            found = build("MatMul", build("Transpose", key, perm=[0, 1, 3, 2]), state)
            value = build("Mul", rest.pop(0), build("Sub", value, found))
        state = build("Add", state, build("Mul", key, value))
        if self.queries < self.shared:
            query = self._repeated(build, query)
        return state, build("MatMul", query, state)

    def _repeated(self, build: NodeBuilder, query: ir.Value) -> ir.Value:
        """Returns each query as often as heads of keys read it: [b, queries, 1, keys] to [b, heads, 1, keys]."""
        times = self.shared // self.queries
        apart = build("Concat", *[query] * times, axis=2)
        return build("Reshape", apart, [0, self.shared, 1, self.key_width])


def _width(node: ir.Node, place: int) -> int:
    """Returns the last size of an input [b, s, width]."""
    value = input_at(node, place)
    width = None if value is None or value.shape is None else value.shape[-1]
    if not isinstance(width, int):
        raise InapplicableError(f"the width of its input {place} is not known")
    return width


class LinearAttentionGate(Rewrite):
    """Decays ``scale · softplus(a + bias)``, and update rates ``sigmoid(b)``."""

    name: ClassVar[str] = "gates of linear attention written out"
    op_types: ClassVar[Sequence[str]] = ("LinearAttentionGate",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Computed in float32, whatever the type."""
        a, dtype = typed(node.inputs[0])
        rates = input_at(node, 3)
        total = build("Add", build.cast(a, ir.DataType.FLOAT), node.inputs[1])
        decay = build.cast(build("Mul", build("Softplus", total), node.inputs[2]), dtype)
        if rates is None:
            return [decay, None][: len(node.outputs)]
        rate = build.cast(build("Sigmoid", build.cast(rates, ir.DataType.FLOAT)), dtype)
        return [decay, rate][: len(node.outputs)]
