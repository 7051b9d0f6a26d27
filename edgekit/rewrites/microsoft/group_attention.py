"""GroupQueryAttention of ``com.microsoft``, which onnxruntime-genai's language models have, written out.

By ONNX Runtime's document ContribOperators, as its CPU kernel computes it: causal attention in which groups of query
heads share a head of keys and values, with the keys and values of a past.
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
from edgekit.rewrites.microsoft.transformer_operators import LATER, counted, size_of, turned_pairs
from edgekit.rewrites.quantized_operators import MICROSOFT

SINCE = 13
"""The opset from which Softmax is along one axis, and its steps take computed axes."""
_OUTPUTS = 3
_SAME_NUMBER = frozenset(["Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"])


class GroupedAttention(Rewrite):
    """Grouped attention as products of matrices, one for each group of heads."""

    name: ClassVar[str] = "grouped attention written out"
    op_types: ClassVar[Sequence[str]] = ("GroupQueryAttention",)
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """Whether the caches hold no quantized integers."""
        return all(node.attributes.get_string(name, "NONE") == "NONE" for name in ("k_quant_type", "v_quant_type"))

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds rotation, a window, a bias and sinks if they are given, and the keys and values of all steps."""
        if build.opset < SINCE:
            raise InapplicableError(f"opset {build.opset} has no softmax along one axis")
        heads = _Heads.of(node)
        query, key, value = heads.apart(node, build)
        past_key, past_value = input_at(node, 3), input_at(node, 4)
        cache = _Cache(node, build, heads, past_key)
        if node.attributes.get_int("do_rotary", 0):
            places = input_at(node, 9) or build("Add", cache.begins, build.unsqueeze(cache.steps, [0]))
            query, key = (self._rotated(node, build, x, places, heads) for x in (query, key))
        keys, values = cache.joined(past_key, key), cache.joined(past_value, value)
        mixed = self._mixed(node, build, query, keys, values, heads, cache)
        joined = build("Reshape", mixed, [0, 0, heads.count * heads.width])
        return [joined, keys, values, *[None] * (len(node.outputs) - _OUTPUTS)][: len(node.outputs)]

    def _rotated(self, node: ir.Node, build: NodeBuilder, x: ir.Value, places: ir.Value, heads: _Heads) -> ir.Value:
        """Returns [b, s, heads, d] with pairs of elements turned by the angles of places [b, s]."""
        cosines, sines = input_at(node, 7), input_at(node, 8)
        if cosines is None or cosines.shape is None or not isinstance(cosines.shape[1], int):
            raise InapplicableError("it rotates by tables that are not known")
        turned = 2 * cosines.shape[1]
        cosine, sine = (build.unsqueeze(build("Gather", table, places, axis=0), [2]) for table in (cosines, sines))
        parts = [x] if turned == heads.width else list(build.split(x, 3, [turned, heads.width - turned]))
        interleaved = node.attributes.get_int("rotary_interleaved", 0) == 1
        parts[0] = turned_pairs(build, parts[0], cosine, sine, turned // 2, is_interleaved=interleaved)
        return parts[0] if len(parts) == 1 else build("Concat", *parts, axis=3)

    def _mixed(
        self,
        node: ir.Node,
        build: NodeBuilder,
        query: ir.Value,
        keys: ir.Value,
        values: ir.Value,
        heads: _Heads,
        cache: _Cache,
    ) -> ir.Value:
        """Returns what heads take of the values: [b, s, heads, d]."""
        grouped = [0, 0, heads.shared, heads.count // heads.shared, heads.width]
        scale = node.attributes.get_float("scale", 0.0) or 1 / math.sqrt(heads.width)
        wide = heads.wide(build, build("Reshape", query, grouped))
        queries = build("Transpose", build("Mul", wide, np.float32(scale)), perm=[0, 2, 3, 1, 4])
        turned = build("Transpose", heads.wide(build, keys), perm=[0, 1, 3, 2])
        scores = build("MatMul", queries, build.unsqueeze(turned, [2]))
        softcap = node.attributes.get_float("softcap", 0.0)
        if softcap:
            capped = build("Tanh", build("Div", scores, np.float32(softcap)))
            scores = build("Mul", capped, np.float32(softcap))
        bias = input_at(node, 10)
        if bias is not None:
            scores = build("Add", scores, _grouped_bias(build, bias, heads))
        scores = build("Where", cache.hidden(node.attributes.get_int("local_window_size", -1), keys), LATER, scores)
        shares = _shares(node, build, scores, heads)
        mixed = build("MatMul", shares, build.unsqueeze(heads.wide(build, values), [2]))
        return build("Transpose", heads.typed(build, mixed), perm=[0, 3, 1, 2, 4])


@dataclass(frozen=True)
class _Heads:
    """How many heads there are, and how wide they are."""

    count: int
    shared: int
    """The number of heads of keys and values."""
    width: int
    dtype: ir.DataType

    @staticmethod
    def of(node: ir.Node) -> _Heads:
        """Returns the heads of a node."""
        count, shared = node.attributes.get_int("num_heads"), node.attributes.get_int("kv_num_heads")
        query = node.inputs[0]
        columns = None if query is None or query.shape is None else query.shape[-1]
        if query is None or query.dtype is None or not isinstance(columns, int):
            raise InapplicableError("the width of its queries, or their type, is not known")
        width = columns // (count if input_at(node, 1) is not None else count + 2 * shared)
        return _Heads(count, shared, width, query.dtype)

    def wide(self, build: NodeBuilder, x: ir.Value) -> ir.Value:
        """Returns numbers of the queries' type as float32."""
        return x if self.dtype == ir.DataType.FLOAT else build.cast(x, ir.DataType.FLOAT)

    def typed(self, build: NodeBuilder, x: ir.Value) -> ir.Value:
        """Returns float32 numbers in the queries' type."""
        return x if self.dtype == ir.DataType.FLOAT else build.cast(x, self.dtype)

    def apart(self, node: ir.Node, build: NodeBuilder) -> tuple[ir.Value, ...]:
        """Returns queries, keys and values as [b, s, heads, d]."""
        counts = (self.count, self.shared, self.shared)
        parts: Sequence[ir.Value | None] = node.inputs[:3]
        if input_at(node, 1) is None:
            parts = build.split(node.inputs[0], 2, [count * self.width for count in counts])
        return tuple(build("Reshape", x, [0, 0, n, self.width]) for x, n in zip(parts, counts, strict=True))


class _Cache:
    """Where new keys and values go among those of the past."""

    def __init__(self, node: ir.Node, build: NodeBuilder, heads: _Heads, past: ir.Value | None) -> None:
        self._build = build
        self._heads = heads
        self._new = size_of(build, node.inputs[0], 1)
        self._last = build("Reshape", build.cast(node.inputs[5], ir.DataType.INT64), [-1, 1])
        """The index of each sequence's last key: [b, 1], int64; what follows it in a prompt is padding."""
        total = build("Reshape", build.cast(node.inputs[6], ir.DataType.INT64), [1])
        before = build("Sub", build("Add", self._last, np.array([1])), self._new)
        self.begins = build("Where", build("Equal", self._new, total), np.array([0]), before)
        """How many keys each sequence has already: [b, 1], int64; 0 if all keys are new."""
        self.steps = counted(build, self._new)
        """The numbers of the new steps: [s], int64."""
        self._total = total
        self._grows = past is not None and _grows(node, past)
        self._has_one_sequence = _is_one(node.inputs[0])
        self._is_full = past is not None and _adds_up(node, past)
        self._taken: tuple[ir.Value, ir.Value] | None = None

    def joined(self, past: ir.Value | None, new: ir.Value) -> ir.Value:
        """Returns the past [b, heads, t, d] with the new ones [b, s, heads, d] behind, and zeros after them.

        With one sequence whose past grows, the new ones are appended to the past, which is first cut to the keys that
        count unless the size of a mask shows that all of them do. Else sequences end at different places, or there is
        room behind them, and rows are gathered.
        """
        build = self._build
        if past is None:
            return build("Transpose", new, perm=[0, 2, 1, 3])
        if self._grows and self._has_one_sequence:
            if not self._is_full:
                past = build("Slice", past, np.array([0]), build("Reshape", self.begins, [1]), np.array([2]))
            return build("Concat", past, build("Transpose", new, perm=[0, 2, 1, 3]), axis=2)
        both = build("Concat", build("Transpose", past, perm=[0, 2, 1, 3]), new, axis=1)
        taken, there = self._rows(past)
        kept = build("Mul", build("GatherND", both, taken, batch_dims=1), there)
        return build("Transpose", kept, perm=[0, 2, 1, 3])

    def _rows(self, past: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns which rows of past and new ones sequences have, [b, t, 1], and whether there is one, [b, t, 1, 1]."""
        if self._taken is not None:
            return self._taken
        build, room = self._build, size_of(self._build, past, 2)
        places = build.unsqueeze(counted(build, build("Max", room, self._total)), [0])
        last = build("Sub", build("Add", room, self._new), np.array([1]))
        moved = build("Min", build("Sub", build("Add", places, room), self.begins), last)
        taken = build("Where", build("Less", places, self.begins), places, moved)
        there = build("Less", places, build("Add", self.begins, self._new))
        mask = build.unsqueeze(build.cast(there, self._heads.dtype), [2, 3])
        self._taken = build.unsqueeze(taken, [2]), mask
        return self._taken

    def hidden(self, window: int, keys: ir.Value) -> ir.Value:
        """Returns whether keys are after a query or its sequence, or ``window`` or more before it: [b, 1, 1, s, t]."""
        build = self._build
        places = counted(build, size_of(build, keys, 2))
        own = build("Add", self.begins, build.unsqueeze(self.steps, [0]))
        own = build.unsqueeze(build("Min", own, self._last), [2])
        hidden = build("Greater", places, own)
        if window > 0:
            hidden = build("Or", hidden, build("LessOrEqual", places, build("Sub", own, np.array([window]))))
        return build.unsqueeze(hidden, [1, 2])


def _grows(node: ir.Node, past: ir.Value) -> bool:
    """Whether there may be more keys in the output than in the past, so that no buffer of one size holds both."""
    present = node.outputs[1] if len(node.outputs) > 1 else None
    before = None if past.shape is None else past.shape[2]
    after = None if present is None or present.shape is None else present.shape[2]
    is_same = before is not None and before == after and not (isinstance(before, ir.SymbolicDim) and not before.value)
    return not is_same


def _adds_up(node: ir.Node, past: ir.Value) -> bool:
    """Whether the total is known to be the size of the past plus that of the new keys."""
    query, total = node.inputs[0], _measured(node.inputs[6])
    if query is None or query.shape is None or past.shape is None or total is None:
        return False
    before, new = past.shape[2], query.shape[1]
    unknown = any(isinstance(each, ir.SymbolicDim) and each.value is None for each in (before, new, total))
    return not unknown and bool(before + new == total)


def _measured(value: ir.Value | None) -> int | ir.SymbolicDim | None:
    """Returns the dimension that a scalar holds, a constant or one that Gather takes out of a Shape, or None."""
    constant = ir.convenience.get_const_tensor(value) if value is not None else None
    if constant is not None:
        return int(constant.numpy().item())
    while value is not None and (node := value.producer()) is not None and node.op_type in _SAME_NUMBER:
        value = node.inputs[0]
    picking = None if value is None else value.producer()
    place = None if picking is None or picking.op_type != "Gather" else picking.inputs[1]
    sizes = None if picking is None or picking.inputs[0] is None else picking.inputs[0].producer()
    at = ir.convenience.get_const_tensor(place) if place is not None else None
    measured = None if sizes is None or sizes.op_type != "Shape" else sizes.inputs[0]
    if at is None or measured is None or measured.shape is None:
        return None
    return measured.shape[int(at.numpy().item())]


def _is_one(query: ir.Value | None) -> bool:
    return query is not None and query.shape is not None and query.shape[0] == 1


def _grouped_bias(build: NodeBuilder, bias: ir.Value, heads: _Heads) -> ir.Value:
    """Returns a bias [b or 1, heads or 1, s, t] for scores [b, shared heads, heads of a group, s, t]."""
    if bias.shape is None or bias.shape[1] not in (1, heads.count):
        raise InapplicableError("how many heads its bias is for is not known")
    wide = heads.wide(build, bias)
    if bias.shape[1] == 1:
        return build.unsqueeze(wide, [1])
    sizes = build("Shape", wide)
    batch, rest = build.slice(sizes, [0], [1], [0]), build.slice(sizes, [2], [4], [0])
    groups = np.array([heads.shared, heads.count // heads.shared])
    return build("Reshape", wide, build("Concat", batch, groups, rest, axis=0))


def _shares(node: ir.Node, build: NodeBuilder, scores: ir.Value, heads: _Heads) -> ir.Value:
    """Returns the shares of keys, which add up to less than 1 if a sink takes some."""
    sink = input_at(node, 11)
    if sink is None and node.attributes.get_int("smooth_softmax", -1) != 1:
        return build("Softmax", scores, axis=-1)
    groups = [1, heads.shared, heads.count // heads.shared, 1, 1]
    rows = np.zeros(groups, np.float32) if sink is None else build("Reshape", sink, groups)
    column = build("Mul", build.slice(scores, [0], [1], [4]), np.float32(0))
    shares = build("Softmax", build("Concat", scores, build("Add", column, rows), axis=4), axis=-1)
    return build.slice(shares, [0], [-1], [4])
