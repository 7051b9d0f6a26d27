"""Attention."""

from __future__ import annotations

import math

import numpy as np

from edgekit_mlruntime.kernels.products import product
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("scaled_dot_product_attention", opset=18)
def scaled_dot_product_attention(
    call: Call, query: Array, key: Array, value: Array, attn_mask: Array | None = None
) -> Array:
    """``softmax(query @ key.T / sqrt(E) + mask) @ value``.

    Args:
        call: The operation.
        query: [B, *, L, E].
        key: [B, *, S, E].
        value: [B, *, S, EV].
        attn_mask: Broadcastable to [B, *, L, S]: bool (False: leave out) or float (added to the scores).

    Returns:
        [B, *, L, EV]; NaN in rows where the mask excludes every key.
    """
    scaled = query * np.float32(1 / math.sqrt(query.shape[-1]))
    weights = product(call, "scores", {"scaled": scaled, "key": key}, transposed=True)
    if attn_mask is not None:
        if attn_mask.dtype == np.bool_:
            attn_mask = np.where(attn_mask, np.float32(0), np.float32(-np.inf))
        weights = weights + attn_mask
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return product(call, "values", {"weights": weights, "value": value})
