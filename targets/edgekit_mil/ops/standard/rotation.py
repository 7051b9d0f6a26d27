"""RotaryEmbedding: rotates pairs of elements by angles that depend on their positions."""

from __future__ import annotations

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Value
from edgekit_mil.support.attention_heads import merge_heads, rotated, split_heads


@lowering("RotaryEmbedding", versions=[23])
def rotary_embedding(
    ctx: Context,
    x: Value,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Value | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Var:
    """Rotates pairs of elements of x [b, s, heads * d] or [b, heads, s, d].

    The caches are [positions, half of the rotated elements] with position_ids [b, s], else [b, s, half].
    """
    heads = x.var if x.rank == 4 else split_heads(x.var, num_heads)
    turned = rotary_embedding_dim or int(heads.shape[3])
    cosines, sines = (
        mb.expand_dims(
            x=cache.var if position_ids is None else mb.gather(x=cache.var, indices=position_ids.var, axis=0), axes=[1]
        )
        for cache in (cos_cache, sin_cache)
    )
    result = rotated(heads, cosines, sines, interleaved=bool(interleaved), turned=turned)
    return result if x.rank == 4 else merge_heads(result)
