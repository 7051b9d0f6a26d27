"""Attention, QAttention, MultiHeadAttention and RotaryEmbedding of ``com.microsoft``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed
from edgekit_mil.ops.microsoft.fused import DOMAIN
from edgekit_mil.ops.microsoft.quantized_matmul import rescaled
from edgekit_mil.ops.standard.quantized_products import integer_matmul
from edgekit_mil.support.attention_heads import (
    LATER,
    added,
    attend,
    causal_bias,
    length_bias,
    mask_bias,
    merge_heads,
    rotated,
    split_heads,
)
from edgekit_mil.support.runtime_shapes import counted, is_number, size_of

MASKED = -10000.0
"""ONNX Runtime's default of the number that is added to a score to hide a key."""


@dataclass(frozen=True)
class AttentionMasking:
    """What hides keys from queries."""

    mask: Value | None
    """The sequences' lengths, or a mask of zeros and ones; None for no mask."""
    bias: Value | None
    """Added to the scores; None for nothing."""
    strength: float
    """The number that is added to a score where the mask hides a key."""
    is_causal: bool = False

    def scores_bias(self, query: Var, key: Var) -> Var | None:
        """The sum of biases for the scores of [b, heads, s, d] and [b, heads, t, d], broadcastable; None for none."""
        queries, keys = size_of(query, 2), size_of(key, 2)
        if self.mask is not None and len(self.mask.shape) == 1 and _differ(self.mask.shape[0], size_of(query, 0)):
            raise Unsupported("a mask that tells where sequences begin")
        finite = max(self.strength, float(LATER))  # it is multiplied by 0 where nothing is hidden
        masked = None if self.mask is None else _hidden(self.mask, queries, keys, finite)
        hidden = causal_bias(queries, keys, masked) if self.is_causal else masked
        return added([hidden, None if self.bias is None else self.bias.var])


@lowering("Attention", versions=[1], domain=DOMAIN, note="masks of lengths or of zeros and ones")
def attention(
    ctx: Context,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    *,
    mask_filter_value: float = MASKED,
    num_heads: int,
    qkv_hidden_sizes: Sequence[int] | None = None,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Var, Var | None]:
    """Self-attention of x [b, s, i] with one matrix [i, q + k + v] for three projections; and the keys and values.

    Past and present keys and values are [2, b, heads, t, d].
    """
    projected = mb.matmul(x=x.var, y=weights.var)
    if bias is not None:
        projected = mb.add(x=projected, y=bias.var)
    width = weights.static_shape[1]
    sizes = list(qkv_hidden_sizes or [width // 3] * 3)
    hiding = AttentionMasking(mask_index, attention_bias, mask_filter_value, bool(unidirectional))
    return _self_attention(ctx, projected, sizes, num_heads, past, hiding, scale)


@lowering("QAttention", versions=[1], domain=DOMAIN, note="masks of lengths or of zeros and ones")
def quantized_attention(
    ctx: Context,
    x: Value,
    weight: Value,
    bias: Value,
    input_scale: Value,
    weight_scale: Value,
    mask_index: Value | None = None,
    input_zero_point: Value | None = None,
    weight_zero_point: Value | None = None,
    past: Value | None = None,
    *,
    mask_filter_value: float = MASKED,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value, Value | None]:
    """Self-attention whose projections multiply 8-bit integers."""
    total = integer_matmul(ctx, x, input_zero_point, weight, weight_zero_point)
    projected = rescaled(total, input_scale, weight_scale, bias).var
    sizes = [weight.static_shape[1] // 3] * 3
    hiding = AttentionMasking(mask_index, None, mask_filter_value, bool(unidirectional))
    result, present = _self_attention(ctx, projected, sizes, num_heads, past, hiding, scale)
    return computed(result, bias.dtype), None if present is None else computed(present, bias.dtype)


@lowering("MultiHeadAttention", versions=[1], domain=DOMAIN, note="masks of lengths or of zeros and ones")
def multi_head_attention(
    ctx: Context,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    key_padding_mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_sequence_length: Value | None = None,
    cache_indirection: Value | None = None,
    *,
    mask_filter_value: float = MASKED,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Var, Var, Var]:
    """Attention of projected queries, keys and values; and the keys and values, appended to those of the past.

    Queries are [b, s, heads * d]; keys and values are [b, t, heads * d] or [b, heads, t, d]. Queries of rank 5 contain
    queries, keys and values, [b, s, heads, 3, d]; keys of rank 5 contain keys and values, [b, t, heads, 2, d].
    """
    if past_sequence_length is not None or cache_indirection is not None:
        raise Unsupported("writes keys and values into those of the past (past_sequence_length, cache_indirection)")
    q, k, v = _heads(query, key, value, bias, num_heads)
    if past_key is not None and past_value is not None:
        k = mb.concat(values=[past_key.var, k], axis=2)
        v = mb.concat(values=[past_value.var, v], axis=2)
    hiding = AttentionMasking(key_padding_mask, attention_bias, mask_filter_value, bool(unidirectional))
    hidden = hiding.scores_bias(q, k)
    result = attend(q, k, v, hidden, scale or 1 / math.sqrt(int(q.shape[3])))
    return merge_heads(result), k, v


@lowering("RotaryEmbedding", versions=[1], domain=DOMAIN)
def rotary_embedding(
    ctx: Context,
    x: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Var:
    """Rotate pairs of elements of x [b, s, heads * d] or [b, heads, s, d] by angles of their positions.

    ``position_ids`` are [b, s], or [1] with the first position; the caches are [positions, d / 2].
    """
    if is_packed_batching or scale != 1.0:
        raise Unsupported("packs batches, or scales")
    width = 2 * cos_cache.static_shape[1]
    heads = x.var if x.rank == 4 else split_heads(x.var, num_heads or x.static_sizes([2])[0] // width)
    positions = position_ids.var
    if position_ids.shape == (1,):
        positions = mb.expand_dims(x=mb.add(x=positions, y=counted(size_of(heads, 2))), axes=[0])
    turned = rotary_embedding_dim or int(heads.shape[3])
    if turned != width:
        raise Unsupported(f"rotates {turned} elements by caches for {width}")
    cosines, sines = (
        mb.expand_dims(x=mb.gather(x=cache.var, indices=positions, axis=0), axes=[1])
        for cache in (cos_cache, sin_cache)
    )
    result = rotated(heads, cosines, sines, interleaved=bool(interleaved), turned=turned)
    return result if x.rank == 4 else merge_heads(result)


def _self_attention(
    ctx: Context,
    projected: Var,
    sizes: Sequence[int],
    heads: int,
    past: Value | None,
    hiding: AttentionMasking,
    scale: float,
) -> tuple[Var, Var | None]:
    """Attention of queries, keys and values side by side in a tensor; and the keys and values, appended to the past."""
    query, key, value = (split_heads(part, heads) for part in mb.split(x=projected, split_sizes=sizes, axis=2))
    if past is not None:
        before = [mb.gather(x=past.var, indices=np.int32(index), axis=0) for index in range(2)]
        key, value = (mb.concat(values=[old, new], axis=2) for old, new in zip(before, (key, value), strict=True))
    present = mb.stack(values=[key, value], axis=0) if len(ctx.output_used) > 1 and ctx.output_used[1] else None
    bias = hiding.scores_bias(query, key)
    result = attend(query, key, value, bias, scale or 1 / math.sqrt(int(query.shape[3])))
    return merge_heads(result), present


def _heads(
    query: Value, key: Value | None, value: Value | None, bias: Value | None, heads: int
) -> tuple[Var, Var, Var]:
    """Queries, keys and values as [b, heads, s, d] each, with biases added."""
    if key is None:
        return _unpacked(query, bias, 3)
    (width,) = query.static_sizes([2])
    biases: list[Var | None] = [None, None, None]
    if bias is not None:
        total = bias.static_shape[0]
        biases = list(mb.split(x=bias.var, split_sizes=[width, width, total - 2 * width], axis=0))
    q = split_heads(_plus(query.var, biases[0]), heads)
    if value is None:
        if bias is not None:
            raise Unsupported("a bias with keys and values in one tensor")
        return q, *_unpacked(key, None, 2)
    if key.rank == 4:
        return q, key.var, value.var
    return (
        q,
        *(split_heads(_plus(part.var, offset), heads) for part, offset in zip((key, value), biases[1:], strict=True)),
    )


def _unpacked(packed: Value, bias: Value | None, parts: int) -> tuple[Var, ...]:
    """Parts of [b, s, heads, parts, d] as [b, heads, s, d]."""
    if packed.rank != 5 or bias is not None:
        raise Unsupported(f"packed queries, keys and values of rank {packed.rank}, or with a bias")
    apart = [mb.gather(x=packed.var, indices=np.int32(part), axis=3) for part in range(parts)]
    return tuple(mb.transpose(x=part, perm=[0, 2, 1, 3]) for part in apart)


def _plus(x: Var, bias: Var | None) -> Var:
    return x if bias is None else mb.add(x=x, y=bias)


def _hidden(mask: Value, queries: Any, keys: Any, value: float) -> Var:
    """The bias for a mask of lengths [b], or of zeros and ones [b, t], [b, s, t] or [b, 1, s, t]."""
    shape = mask.shape
    if len(shape) == 1:
        return length_bias(mask.var, keys, value)
    if _differ(shape[-1], keys) or (len(shape) > 2 and shape[-2] != 1 and _differ(shape[-2], queries)):
        raise Unsupported(f"a mask of shape {list(shape)} for {queries} queries and {keys} keys")
    axes = {2: [1, 2], 3: [1]}.get(len(shape))
    bias = mask_bias(mask.var, value)
    return bias if axes is None else mb.expand_dims(x=bias, axes=axes)


def _differ(size: Any, other: Any) -> bool:
    """Whether two sizes are known to differ."""
    return is_number(size) and is_number(other) and size != other
