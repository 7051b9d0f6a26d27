"""Attention by heads, and helpers that split tensors into heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import computed, constant
from edgekit_mil.support.movement import choose
from edgekit_mil.support.runtime_shapes import as_number, counted, is_number, size_of, vector

LATER = np.float32(np.finfo(np.float32).min)
"""The score of a key that comes after its query. ONNX Runtime hides such keys by it, whatever number a mask adds."""


def attend(query: Var, key: Var, value: Var, bias: Var | None, scale: float) -> Var:
    """``softmax(query key^T * scale + bias) value``.

    Args:
        query: [b, heads, s, d].
        key: [b, heads, t, d].
        value: [b, heads, t, e].
        bias: Added to the scores, broadcastable to [b, heads, s, t]; None for nothing.
        scale: Factor of the scores.
    """
    scores = mb.matmul(x=mb.mul(x=query, y=scale), y=key, transpose_y=True)
    if bias is not None:
        scores = mb.add(x=scores, y=bias)
    return mb.matmul(x=mb.softmax(x=scores, axis=-1), y=value)


def split_heads(x: Var, heads: int) -> Var:
    """[b, s, heads * d] as [b, heads, s, d]."""
    width = int(x.shape[2])
    apart = mb.reshape(x=x, shape=vector([size_of(x, 0), size_of(x, 1), heads, width // heads]))
    return mb.transpose(x=apart, perm=[0, 2, 1, 3])


def merge_heads(x: Var) -> Var:
    """[b, heads, s, d] as [b, s, heads * d]."""
    sizes = [size_of(x, 0), size_of(x, 2), int(x.shape[1]) * int(x.shape[3])]
    return mb.reshape(x=mb.transpose(x=x, perm=[0, 2, 1, 3]), shape=vector(sizes))


def causal_bias(queries: Any, keys: Any, earlier: Var | None) -> Var | np.ndarray:
    """Returns :data:`LATER` where a key comes after a query, both counted from the end, and ``earlier`` elsewhere.

    The result broadcasts to [b, heads, s, t].

    Args:
        queries: Number of queries, in the form of :func:`edgekit_mil.support.runtime_shapes.size_of`.
        keys: Number of keys, in the form of :func:`edgekit_mil.support.runtime_shapes.size_of`.
        earlier: The bias of keys that are not later, broadcastable to [b, heads, s, t]; None for 0.
    """
    if is_number(queries) and is_number(keys):
        later = np.arange(keys)[None, :] > np.arange(queries)[:, None] + (keys - queries)
        if earlier is None:
            return np.where(later, LATER, np.float32(0))[None, None]
        beyond = mb.const(val=later[None, None])
    else:
        first = mb.sub(x=as_number(keys), y=as_number(queries))
        last = mb.add(x=mb.expand_dims(x=counted(queries), axes=[1]), y=first)
        beyond = mb.greater(x=mb.expand_dims(x=counted(keys), axes=[0]), y=last)
        if earlier is None:
            return mb.expand_dims(x=mb.mul(x=mb.cast(x=beyond, dtype="fp32"), y=LATER), axes=[0, 1])
        beyond = mb.expand_dims(x=beyond, axes=[0, 1])
    return choose(beyond, constant(np.asarray(LATER)), computed(earlier, ir.DataType.FLOAT))


def mask_bias(mask: Var, value: float) -> Var:
    """``value`` where an integer mask is 0, else 0."""
    hidden = mb.cast(x=mb.less_equal(x=mask, y=0), dtype="fp32")
    return mb.mul(x=hidden, y=value)


def length_bias(lengths: Var, keys: Any, value: float) -> Var:
    """Returns ``value`` for each key from its sequence's length [b] on, and 0 before: [b, 1, 1, t]."""
    places = mb.expand_dims(x=counted(keys), axes=[0])
    beyond = mb.greater_equal(x=places, y=mb.expand_dims(x=lengths, axes=[1]))
    return mb.expand_dims(x=mb.mul(x=mb.cast(x=beyond, dtype="fp32"), y=value), axes=[1, 2])


def added(biases: Sequence[Var | np.ndarray | None]) -> Var | None:
    """Returns the sum of the biases that are not None; None if all are."""
    given = [bias for bias in biases if bias is not None]
    if not given:
        return None
    total = given[0] if isinstance(given[0], Var) else mb.const(val=given[0])
    for bias in given[1:]:
        total = mb.add(x=total, y=bias)
    return total


def rotated(x: Var, cosines: Var, sines: Var, *, interleaved: bool, turned: int) -> Var:
    """Rotary embedding of the first elements of each row of x [b, heads, s, d]; the others stay as they are.

    Args:
        x: The rows.
        cosines: [b or 1, 1, s, turned / 2].
        sines: [b or 1, 1, s, turned / 2].
        interleaved: Whether a pair are two adjacent elements, or else elements at the same place of the two halves.
        turned: How many elements are rotated, at most d.
    """
    size = int(x.shape[3])
    if turned == size:
        return _rotated(x, cosines, sines, interleaved=interleaved)
    front, rest = mb.split(x=x, split_sizes=[turned, size - turned], axis=3)
    return mb.concat(values=[_rotated(front, cosines, sines, interleaved=interleaved), rest], axis=3)


def _rotated(x: Var, cosines: Var, sines: Var, *, interleaved: bool) -> Var:
    (batch, heads, steps), width = (size_of(x, axis) for axis in range(3)), int(x.shape[3])
    if interleaved:
        pairs = mb.reshape(x=x, shape=vector([batch, heads, -1, 2]))
        first, second = (
            mb.reshape(x=part, shape=vector([batch, heads, steps, width // 2]))
            for part in mb.split(x=pairs, num_splits=2, axis=3)
        )
    else:
        first, second = mb.split(x=x, num_splits=2, axis=3)
    real = mb.sub(x=mb.mul(x=first, y=cosines), y=mb.mul(x=second, y=sines))
    imaginary = mb.add(x=mb.mul(x=first, y=sines), y=mb.mul(x=second, y=cosines))
    if not interleaved:
        return mb.concat(values=[real, imaginary], axis=3)
    columns = [mb.reshape(x=part, shape=vector([batch, heads, -1, 1])) for part in (real, imaginary)]
    return mb.reshape(x=mb.concat(values=columns, axis=3), shape=vector([batch, heads, steps, width]))
