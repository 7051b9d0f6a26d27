"""GroupQueryAttention of ``com.microsoft``: exported language models use it with a cache of keys and values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed, constant
from edgekit_mil.ops.microsoft.fused import DOMAIN
from edgekit_mil.support.attention_heads import LATER, added, merge_heads, rotated, split_heads
from edgekit_mil.support.movement import choose


@dataclass(frozen=True)
class Cache:
    """Where new keys and values are written into those of the past."""

    begins: Var | np.ndarray
    """Number of keys that each sequence already has: [b, 1], int32."""
    new: int
    """Number of new keys."""
    capacity: int
    """Number of keys that the past has room for."""
    length: int
    """Number of keys that the result has room for."""

    def written(self, past: Var | None, new: Var, target_has_batches: bool) -> Var:
        """The past [b, heads, capacity, d] with the new ones [b, heads, s, d] after its keys, and zeros at the end."""
        batch = int(new.shape[0])
        if past is None or self.capacity == 0:
            if self.length != self.new:
                raise Unsupported(
                    f"{self.new} new keys, but the cache of {self.length} keys that they belong to is not given"
                )
            return new
        both = mb.concat(values=[past, new], axis=2)
        if isinstance(self.begins, np.ndarray) and np.all(self.begins == self.capacity):
            return both
        places = np.arange(self.length, dtype=np.int32)[None]
        is_old = mb.less(x=places, y=self.begins)
        moved = mb.minimum(x=mb.sub(x=places + self.capacity, y=self.begins), y=self.capacity + self.new - 1)
        indices = mb.select(cond=is_old, a=places, b=moved)
        if batch == 1:
            taken = mb.gather(x=both, indices=mb.squeeze(x=indices, axes=[0]), axis=2)
        elif target_has_batches:
            taken = mb.gather(x=both, indices=indices, axis=2, batch_dims=1)
        else:
            raise Unsupported("several sequences at a time need iOS 17")
        kept = mb.cast(x=mb.less(x=places, y=mb.add(x=self.begins, y=self.new)), dtype="fp32")
        return mb.mul(x=taken, y=mb.expand_dims(x=kept, axes=[1, 3]))

    def positions(self) -> Var:
        """Positions of the new keys in their sequences: [b, s], int32."""
        steps = np.arange(self.new, dtype=np.int32)[None]
        if isinstance(self.begins, np.ndarray):
            return mb.const(val=steps + self.begins)
        return mb.add(x=steps, y=self.begins)

    def causal_bias(self, window: int) -> Var | np.ndarray:
        """The bias that hides keys after a query, and those ``window`` or more before it: [b, 1, s, length]."""
        keys = np.arange(self.length, dtype=np.int32)[None, None]
        if isinstance(self.begins, np.ndarray):
            places = self.positions().val[:, :, None]
            outside = (keys > places) | ((keys <= places - window) & (window > 0))
            return np.where(outside, LATER, np.float32(0))[:, None]
        queries = mb.expand_dims(x=self.positions(), axes=[2])
        hidden = mb.greater(x=keys, y=queries)
        if window > 0:
            hidden = mb.logical_or(x=hidden, y=mb.less_equal(x=keys, y=mb.sub(x=queries, y=window)))
        return mb.expand_dims(x=mb.mul(x=mb.cast(x=hidden, dtype="fp32"), y=LATER), axes=[1])


@lowering("GroupQueryAttention", versions=[1], domain=DOMAIN, note="total_sequence_length constant; float caches")
def group_query_attention(
    ctx: Context,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens_k: Value,
    total_sequence_length: Value,
    cos_cache: Value | None = None,
    sin_cache: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    *,
    do_rotary: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
) -> tuple[Var, Var, Var]:
    """Causal attention in which groups of query heads share a head of keys and values; and all keys and values.

    Queries are [b, s, heads * d], or queries, keys and values side by side; the past is [b, kv_heads, t, d]. A sequence
    has ``seqlens_k + 1`` keys including the new ones; ``total_sequence_length`` is the largest number in the batch.
    """
    q, k, v = _heads(query, key, value, num_heads, kv_num_heads)
    batch, _, steps, width = (int(size) for size in q.shape)
    (total,) = total_sequence_length.ints("total_sequence_length")
    capacity = 0 if past_key is None else past_key.static_shape[2]
    cache = Cache(_begins(seqlens_k, batch, steps, total), steps, capacity, max(capacity, total))
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise Unsupported("rotates, but has no cos_cache and sin_cache")
        places = cache.positions() if position_ids is None else position_ids.var
        q, k = (_turned(x, places, cos_cache, sin_cache, bool(rotary_interleaved)) for x in (q, k))
    batches = ctx.at_least(ct.target.iOS17)
    k = cache.written(None if past_key is None else past_key.var, k, batches)
    v = cache.written(None if past_value is None else past_value.var, v, batches)
    if attention_bias is not None and attention_bias.static_shape[-1] != cache.length:
        raise Unsupported(f"a bias for {attention_bias.static_shape[-1]} keys of {cache.length}")
    bias = added([cache.causal_bias(local_window_size), None if attention_bias is None else attention_bias.var])
    grouped = [batch, kv_num_heads, num_heads // kv_num_heads * steps, width]
    factor = scale or 1 / math.sqrt(width)
    scores = mb.matmul(x=mb.reshape(x=mb.mul(x=q, y=factor), shape=grouped), y=k, transpose_y=True)
    scores = mb.reshape(x=scores, shape=[batch, num_heads, steps, cache.length])
    if softcap:
        scores = mb.mul(x=mb.tanh(x=mb.mul(x=scores, y=1 / softcap)), y=softcap)
    sink = _sink(head_sink, smooth_softmax == 1, [batch, num_heads, steps, 1])
    shares = _softmax(mb.add(x=scores, y=bias), sink)
    if attention_bias is not None and sink is None:
        shares = _nothing_where_all_is_hidden(shares, bias)
    shares = mb.reshape(x=shares, shape=[*grouped[:3], cache.length])
    result = mb.reshape(x=mb.matmul(x=shares, y=v), shape=[batch, num_heads, steps, width])
    return merge_heads(result), k, v


def _nothing_where_all_is_hidden(shares: Var, bias: Var) -> Var:
    """The shares, 0 for each query whose keys are all hidden by LATER or minus infinity, as in ONNX Runtime."""
    nearest = mb.reduce_max(x=bias, axes=[-1], keep_dims=True, name=EXACT)
    is_hidden = mb.less_equal(x=nearest, y=LATER, name=EXACT)
    return choose(is_hidden, constant(np.zeros((), np.float32)), computed(shares, ir.DataType.FLOAT))


def _heads(query: Value, key: Value | None, value: Value | None, heads: int, kv_heads: int) -> tuple[Var, Var, Var]:
    """Queries [b, heads, s, d], keys and values [b, kv_heads, s, d]."""
    if key is None or value is None:
        width = query.static_shape[2] // (heads + 2 * kv_heads)
        sizes = [heads * width, kv_heads * width, kv_heads * width]
        parts = mb.split(x=query.var, split_sizes=sizes, axis=2)
    else:
        parts = (query.var, key.var, value.var)
    return tuple(split_heads(x, count) for x, count in zip(parts, (heads, kv_heads, kv_heads), strict=True))


def _begins(seqlens: Value, batch: int, steps: int, total: int) -> Var | np.ndarray:
    """Number of keys before the new ones: [b, 1]; 0 if all keys are new."""
    if steps == total:
        return np.zeros((batch, 1), np.int32)
    if seqlens.constant is not None:
        return (seqlens.constant.reshape(batch, 1) + (1 - steps)).astype(np.int32)
    return mb.add(x=mb.reshape(x=seqlens.var, shape=[batch, 1]), y=np.int32(1 - steps))


def _turned(x: Var, positions: Var, cos_cache: Value, sin_cache: Value, interleaved: bool) -> Var:
    """Heads [b, heads, s, d] rotated by angles of positions [b, s]; elements beyond the caches' width are kept."""
    cosines, sines = (
        mb.expand_dims(x=mb.gather(x=cache.var, indices=positions, axis=0), axes=[1])
        for cache in (cos_cache, sin_cache)
    )
    return rotated(x, cosines, sines, interleaved=interleaved, turned=2 * cos_cache.static_shape[1])


def _sink(head_sink: Value | None, smooth: bool, shape: list[int]) -> Var | None:
    """A score that belongs to no key: [b, heads, s, 1]; None if there is none."""
    if head_sink is not None:
        rows = mb.reshape(x=head_sink.var, shape=[1, shape[1], 1, 1])
        return mb.add(x=np.zeros(shape, np.float32), y=rows)
    return mb.const(val=np.zeros(shape, np.float32)) if smooth else None


def _softmax(scores: Var, sink: Var | None) -> Var:
    """Softmax over the keys: [b, heads, s, t]; with a sink, the shares of the keys add up to less than 1."""
    if sink is None:
        return mb.softmax(x=scores, axis=-1)
    shares = mb.softmax(x=mb.concat(values=[scores, sink], axis=3), axis=-1)
    return mb.slice_by_size(x=shares, begin=[0, 0, 0, 0], size=[-1, -1, -1, int(scores.shape[3])])
