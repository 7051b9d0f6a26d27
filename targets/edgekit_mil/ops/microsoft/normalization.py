"""Normalizations of ``com.microsoft``, and one that ONNX Runtime adds to the standard domain."""

from __future__ import annotations

import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed
from edgekit_mil.ops.microsoft.fused import DOMAIN
from edgekit_mil.ops.standard.normalization import layer_norm, rms_norm
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import counted, is_number, size_of, vector

Outputs = tuple[Var | Value | None, ...]


@lowering("SimplifiedLayerNormalization", versions=[1])
def simplified_layer_normalization(
    ctx: Context, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Var:
    """``x / sqrt(mean(x ** 2) + epsilon) * scale``, the mean over the axes from ``axis`` on."""
    _require_plain(ctx, 1)
    return rms_norm(x.var, scale.var, list(range(normalized_axis(axis, x.rank), x.rank)), epsilon)


@lowering("SkipLayerNormalization", versions=[1], domain=DOMAIN)
def skip_layer_normalization(
    ctx: Context,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> Outputs:
    """Layer normalization of ``x + skip + bias`` over the last axis; returns the sum, too."""
    _require_plain(ctx, 3)
    total = _sum(x, skip, bias)
    return layer_norm(total, gamma, beta, x.rank - 1, epsilon), None, None, total


@lowering("SkipSimplifiedLayerNormalization", versions=[1], domain=DOMAIN)
def skip_simplified_layer_normalization(
    ctx: Context, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> Outputs:
    """Root-mean-square normalization of ``x + skip + bias`` over the last axis; returns the sum, too."""
    _require_plain(ctx, 3)
    total = _sum(x, skip, bias)
    return rms_norm(total.var, gamma.var, [x.rank - 1], epsilon), None, None, total


@lowering("EmbedLayerNormalization", versions=[1], domain=DOMAIN)
def embed_layer_normalization(
    ctx: Context,
    input_ids: Value,
    segment_ids: Value | None,
    word_embedding: Value,
    position_embedding: Value,
    segment_embedding: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Outputs:
    """Layer normalization of the sum of word, position and segment embeddings; and the number of ones per mask."""
    batch, steps = (size_of(input_ids.var, axis) for axis in range(2))
    total = mb.gather(x=word_embedding.var, indices=input_ids.var, axis=0)
    if position_ids is not None:
        positions = mb.gather(x=position_embedding.var, indices=position_ids.var, axis=0)
    elif is_number(steps):
        width = position_embedding.static_shape[1]
        positions = mb.slice_by_size(x=position_embedding.var, begin=[0, 0], size=[steps, width])
    else:
        positions = mb.gather(x=position_embedding.var, indices=counted(steps), axis=0)
    total = mb.add(x=total, y=positions)
    if segment_ids is not None and segment_embedding is not None:
        total = mb.add(x=total, y=mb.gather(x=segment_embedding.var, indices=segment_ids.var, axis=0))
    embedded = computed(total, word_embedding.dtype)
    normalized = computed(layer_norm(embedded, gamma, beta, 2, epsilon), word_embedding.dtype)
    if mask is not None:
        lengths = mb.reduce_sum(x=mask.var, axes=[1], keep_dims=False)
    else:
        lengths = mb.fill(shape=vector([batch]), value=0)
    return normalized, computed(lengths, ir.DataType.INT32), embedded


def _sum(x: Value, skip: Value, bias: Value | None) -> Value:
    total = mb.add(x=x.var, y=skip.var)
    return computed(total if bias is None else mb.add(x=total, y=bias.var), x.dtype)


def _require_plain(ctx: Context, sum_position: int) -> None:
    """Raises Unsupported if statistics for training are asked for, which are not computed."""
    if any(used and position not in (0, sum_position) for position, used in enumerate(ctx.output_used)) or (
        sum_position == 1 and any(ctx.output_used[1:])
    ):
        raise Unsupported("its mean and deviation are asked for, which only training needs")
