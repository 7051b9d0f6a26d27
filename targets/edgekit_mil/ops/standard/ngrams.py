"""Counting n-grams."""

from __future__ import annotations

from functools import reduce

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed

BATCHED = 2
"""The rank of an input with several rows."""


@lowering("TfIdfVectorizer", versions=[9], note="of integers")
def tf_idf(
    ctx: Context,
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Var:
    """How often each n-gram of a pool occurs in a row of integers, with gaps of up to ``max_skip_count`` between them.

    ``TF`` gives the counts, ``IDF`` the weights of n-grams that occur, ``TFIDF`` their products.
    """
    if pool_int64s is None or pool_strings:
        raise Unsupported("programs have no texts")
    rows = x.var if x.rank == BATCHED else mb.expand_dims(x=x.var, axes=[0])
    sizes = range(1, len(ngram_counts) + 1)
    pools = [pool.reshape(-1, size) for pool, size in zip(pool_parts(ngram_counts, pool_int64s), sizes, strict=True)]
    width = max(ngram_indexes) + 1
    parts, numbers = [], []
    first = 0
    for size, pool in zip(sizes, pools, strict=True):
        of_size = np.arange(first, first + len(pool))
        first += len(pool)
        if not (min_gram_length <= size <= max_gram_length and len(pool)):
            continue
        order = np.argsort(np.asarray(ngram_indexes)[of_size], kind="stable")
        found = occurrences(computed(rows, x.dtype), pool[order].astype(np.int32), 0 if size == 1 else max_skip_count)
        if found is None:
            continue
        parts.append(mb.minimum(x=found, y=np.float32(1)) if mode == "IDF" else found)
        numbers.append(of_size[order])
    weighted = np.asarray(weights, np.float32) if weights and mode != "TF" else np.ones(first, np.float32)
    if parts:
        places = [np.asarray(ngram_indexes)[outputs] for outputs in numbers]
        result = by_column(parts, places, [weighted[outputs] for outputs in numbers], width)
    else:
        result = mb.const(val=np.zeros((x.static_shape[0] if x.rank == BATCHED else 1, width), np.float32))
    return result if x.rank == BATCHED else mb.squeeze(x=result, axes=[0])


def by_column(parts: list[Var], places: list[np.ndarray], weights: list[np.ndarray], width: int) -> Var:
    """Weighted counts (rows, width) of the n-grams of ``parts``: gathered if each n-gram has a separate column."""
    columns = np.concatenate(places)
    if np.array_equal(np.sort(columns), np.arange(width)):
        order = np.argsort(columns)
        whole = mb.concat(values=parts, axis=1) if len(parts) > 1 else parts[0]
        if not np.array_equal(order, np.arange(width)):
            whole = mb.gather(x=whole, indices=order.astype(np.int32), axis=1)
        weight = np.concatenate(weights)[order]
        return whole if np.all(weight == 1) else mb.mul(x=whole, y=weight[np.newaxis])
    products = []
    for part, columns_of_part, weight in zip(parts, places, weights, strict=True):
        table = np.zeros((len(columns_of_part), width), np.float32)
        table[np.arange(len(columns_of_part)), columns_of_part] = weight
        products.append(mb.matmul(x=part, y=table))
    return reduce(lambda one, other: mb.add(x=one, y=other), products)


def pool_parts(starts: list[int], pool: list[int]) -> list[np.ndarray]:
    """Splits the pool by the n-grams' sizes; each part holds its n-grams one after the other."""
    return np.split(np.asarray(pool, np.int64), starts[1:])


def occurrences(rows: Value, pool: np.ndarray, most_skipped: int) -> Var | None:
    """How often each n-gram of a pool [N, n] occurs in each row; None if rows are too short for any."""
    (length,) = rows.static_sizes([1])
    counts = []
    for distance in range(1, most_skipped + 2):
        starts = length - (pool.shape[1] - 1) * distance
        if starts <= 0:
            break
        hits = []
        for place in range(pool.shape[1]):
            first = place * distance
            part = mb.slice_by_index(
                x=rows.var, begin=[0, first], end=[0, first + starts], begin_mask=[True, False], end_mask=[True, False]
            )
            hits.append(mb.equal(x=mb.expand_dims(x=part, axes=[2]), y=pool[:, place].reshape(1, 1, -1)))
        whole = reduce(lambda one, other: mb.logical_and(x=one, y=other), hits)
        counts.append(mb.reduce_sum(x=mb.cast(x=whole, dtype="fp32"), axes=[1], keep_dims=False))
    return reduce(lambda one, other: mb.add(x=one, y=other), counts) if counts else None
