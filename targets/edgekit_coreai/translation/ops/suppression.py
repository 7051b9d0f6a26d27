"""The choice of boxes that do not overlap: turns that each take the best box left and drop what it covers.

The turns are written out one after the other: in a loop, coreai-core 1.0.0b3 computes other boxes.
"""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor

MOST_TURNS = 64


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
    n, count, _ = boxes.sizes
    turns = min(max_boxes, count)
    if turns > MOST_TURNS:
        raise CannotTranslate(f"the choice of up to {turns} boxes; at most {MOST_TURNS} can be written out")
    plain, ranks = b.wide(boxes), b.wide(scores)
    best = b.squeeze(b.reduce("reduce_max", ranks, [2]), [2])
    classes = b.cast(b.squeeze(b.op("argmax", ranks, np.array(2, np.int32)), [2]), np.int32)
    overlapping = b.greater(_overlaps(b, plain), iou_threshold)
    if per_class:
        same = b.equal(b.expand(classes, [2]), b.expand(classes, [1]))
        overlapping = b.spread("and", overlapping, same)
    # A box without an extent covers at least itself.
    covers = b.maximum(b.cast(overlapping, np.int32), b.constant(np.eye(count, dtype=np.int32)[np.newaxis]))
    gone = float(np.finfo(np.float32).min)
    left = best if score_threshold is None else b.select(b.less(best, score_threshold), gone, best)
    if score_threshold is not None:
        # If no score is enough, the best box is chosen anyway.
        peak = b.reduce("reduce_max", best, [1])
        none = b.less(peak, score_threshold)
        first = b.cast(b.op("argmax", best, np.array(1, np.int32)), np.int32)
        is_first = b.equal(b.reshape(b.positions(count), [1, -1]), first)
        left = b.select(b.spread("and", none, is_first), best, left)

    rows: list[Tensor] = []
    remaining = left
    for _ in range(turns):
        top = b.cast(b.op("argmax", remaining, np.array(1, np.int32)), np.int32)
        exists = b.greater(b.reduce("reduce_max", remaining, [1]), gone)
        rows.append(b.select(exists, top, -1))
        row = b.broadcast(b.expand(top, [2]), [n, 1, count])
        covered = b.squeeze(b.along_axis(covers, row, 1), [1])
        remaining = b.select(b.greater(covered, 0), gone, remaining)
    if turns < max_boxes:
        rows.append(b.constant(np.full((n, max_boxes - turns), -1, np.int32)))
    indices = b.concat(rows, 1)
    is_real = b.op("not_", b.less(indices, 0))
    safe = b.maximum(indices, 0)
    picked = []
    for table in (boxes, scores):
        width = table.sizes[2]
        chosen = b.along_axis(table, b.broadcast(b.expand(safe, [2]), [n, max_boxes, width]), 1)
        picked.append(b.select(b.expand(is_real, [2]), chosen, 0))
    total = b.squeeze(b.reduce("reduce_sum", b.cast(is_real, np.int32), [1]), [1])
    return picked[0], picked[1], indices, total


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
