"""The choice of boxes that do not overlap, by products of matrices: which boxes are taken, and the place of each.

A box is taken where no taken box that comes before it overlaps it. Starting from all, each round of a loop settles at
least one box more; it ends once a round changes nothing. In a loop that takes one box after the other coreai-core
1.0.0b3 computes other boxes.
"""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("non_maximum_suppression", opset=17)
def non_maximum_suppression(
    b: Builder,
    call: Call,
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Tensor, ...]:
    """``boxes`` [n, 4, B]: centre x and y, width, height; ``scores`` [n, K, B]. Filled up with 0, indices with -1."""
    rows = [b.transpose(item, [0, 2, 1]) for item in (boxes, scores)]
    found = _suppressed(b, rows[0], rows[1], iou_threshold, None, max_boxes, per_class_suppression)
    out_boxes, out_scores, indices, _ = found
    return b.transpose(out_boxes, [0, 2, 1]), b.transpose(out_scores, [0, 2, 1]), indices


@lowering("non_maximum_suppression")
def non_maximum_suppression_by_score(
    b: Builder,
    call: Call,
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    score_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Tensor, ...]:
    """``boxes`` [n, B, 4] and ``scores`` [n, B, K] of which those below ``score_threshold`` are left out."""
    return _suppressed(b, boxes, scores, iou_threshold, score_threshold, max_boxes, per_class_suppression)


def _suppressed(
    b: Builder,
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    score_threshold: float | None,
    max_boxes: int,
    per_class: bool,
) -> tuple[Tensor, ...]:
    if not (boxes.is_static and scores.is_static):
        raise CannotTranslate("boxes whose number is open")
    n = boxes.sizes[0]
    plain, ranks = b.wide(boxes), b.wide(scores)
    best = b.squeeze(b.reduce("reduce_max", ranks, [2]), [2])
    classes = b.cast(b.squeeze(b.op("argmax", ranks, np.array(2, np.int32)), [2]), np.int32)
    overlapping = b.greater(_overlaps(b, plain), iou_threshold)
    if per_class:
        same = b.equal(b.expand(classes, [2]), b.expand(classes, [1]))
        overlapping = b.spread("and", overlapping, same)
    before = _before(b, best)
    taken = _taken(b, b.spread("and", overlapping, before), _candidates(b, best, score_threshold))
    rank = b.matmul(b.cast(before, np.float32), taken)
    places = b.constant(np.arange(max_boxes, dtype=np.float32).reshape(1, 1, -1))
    at_place = b.mul(b.cast(b.equal(rank, places), np.float32), taken)
    exists = b.squeeze(b.greater(b.reduce("reduce_max", at_place, [1]), 0), [1])
    top = b.cast(b.squeeze(b.op("argmax", at_place, np.array(1, np.int32)), [1]), np.int32)
    indices = b.select(exists, top, -1)
    is_real = b.op("not_", b.less(indices, 0))
    safe = b.maximum(indices, 0)
    picked = []
    for table in (boxes, scores):
        width = table.sizes[2]
        chosen = b.along_axis(table, b.broadcast(b.expand(safe, [2]), [n, max_boxes, width]), 1)
        picked.append(b.select(b.expand(is_real, [2]), chosen, 0))
    total = b.squeeze(b.reduce("reduce_sum", b.cast(is_real, np.int32), [1]), [1])
    return picked[0], picked[1], indices, total


def _before(b: Builder, best: Tensor) -> Tensor:
    """Whether each box [n, B, 1] comes after another [n, 1, B]: that scores higher, or as high and stands before it."""
    own, other = b.expand(best, [2]), b.expand(best, [1])
    places = b.unfolded(b.constant(np.arange(best.sizes[1], dtype=np.int32)))
    stands_before = b.less(b.reshape(places, [1, 1, -1]), b.reshape(places, [1, -1, 1]))
    return b.spread("or", b.greater(other, own), b.spread("and", b.equal(other, own), stands_before))


def _candidates(b: Builder, best: Tensor, score_threshold: float | None) -> Tensor:
    """1 for each box whose score is enough, else 0: [n, B]. If none is, the best box is chosen anyway."""
    if score_threshold is None:
        return b.broadcast(b.constant(np.ones((1, 1), np.float32)), best.sizes)
    enough = b.op("not_", b.less(best, score_threshold))
    none = b.less(b.reduce("reduce_max", best, [1]), score_threshold)
    first = b.cast(b.op("argmax", best, np.array(1, np.int32)), np.int32)
    is_first = b.equal(b.reshape(b.positions(best.sizes[1]), [1, -1]), first)
    return b.cast(b.spread("or", enough, b.spread("and", none, is_first)), np.float32)


def _taken(b: Builder, hides: Tensor, candidates: Tensor) -> Tensor:
    """1 for each candidate that no taken one hides: [n, B, 1].

    Args:
        b: Writes the operations.
        hides: Whether a box [n, B, 1] is hidden by another [n, 1, B], which comes before it.
        candidates: 1 for each, else 0: [n, B].
    """
    weights, every = b.cast(hides, np.float32), b.expand(candidates, [2])

    def body(values: list[Tensor]) -> list[Tensor]:
        taken, _, weights, every = values
        hidden = b.greater(b.matmul(weights, taken), 0)
        after = b.select(hidden, b.like(0, taken), every)
        changed = b.reduce("reduce_max", b.cast(b.op("not_", b.equal(after, taken)), np.float32), [0, 1, 2])
        return [after, b.reshape(changed, [])]

    kinds = [(every.shape, every.dtype), ((), np.dtype(np.float32))]
    initial = [every, b.constant(np.float32(1))]
    return b.loop(initial, kinds, lambda values: b.greater(values[1], 0), body, fixed=[weights, every])[0]


def _overlaps(b: Builder, boxes: Tensor) -> Tensor:
    """Intersection over union of each box with each other: [n, B, B]; 0 where both are empty."""
    centres, extents = b.narrow(boxes, 2, 0, 2), b.narrow(boxes, 2, 2, 4)
    half = b.mul(extents, 0.5)
    low, high = b.sub(centres, half), b.add(centres, half)
    tops = b.maximum(b.expand(low, [2]), b.expand(low, [1]))
    ends = b.minimum(b.expand(high, [2]), b.expand(high, [1]))
    shared = b.reduce("reduce_product", b.maximum(b.sub(ends, tops), 0), [3], keep=False)
    areas = b.reduce("reduce_product", extents, [2])
    union = b.sub(b.add(areas, b.transpose(areas, [0, 2, 1])), shared)
    some = b.greater(union, 0)
    return b.select(some, b.div(shared, b.select(some, union, 1)), 0)
