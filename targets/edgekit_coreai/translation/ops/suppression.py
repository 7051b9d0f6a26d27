"""Non-maximum suppression as a loop: each iteration takes the best remaining box and drops boxes that overlap it.

Values that the loop reads are passed through it: if they are captured, coreai-core 1.0.0b3 computes wrong boxes.
Tensors have one element per box, not per pair of boxes: the pairs of 8,400 boxes would take gigabytes.
"""

from __future__ import annotations

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor

GONE = float(np.finfo(np.float32).min)
"""Score that marks a box as taken, dropped or left out."""


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
    """Suppression of ``boxes`` [n, 4, B] (center x and y, width, height) with ``scores`` [n, K, B].

    Returned boxes and scores are filled up with 0, indices with -1.
    """
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
    """Suppression of ``boxes`` [n, B, 4] with ``scores`` [n, B, K]; boxes below ``score_threshold`` are left out."""
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
    spaces = [*_corners(b, plain), *([b.cast(classes, np.float32)] if per_class else [])]
    remaining = _candidates(b, best, score_threshold)
    indices = _taken_in_turn(b, remaining, spaces, iou_threshold, max_boxes)
    is_real = b.op("not_", b.less(indices, 0))
    safe = b.maximum(indices, 0)
    picked = []
    for table in (boxes, scores):
        width = table.sizes[2]
        chosen = b.along_axis(table, b.broadcast(b.expand(safe, [2]), [n, max_boxes, width]), 1)
        picked.append(b.select(b.expand(is_real, [2]), chosen, 0))
    total = b.squeeze(b.reduce("reduce_sum", b.cast(is_real, np.int32), [1]), [1])
    return picked[0], picked[1], indices, total


def _candidates(b: Builder, best: Tensor, score_threshold: float | None) -> Tensor:
    """The scores [n, B] of boxes that may be taken, and GONE for others.

    If no score reaches the threshold, the best box may be taken.
    """
    if score_threshold is None:
        return best
    none = b.less(b.reduce("reduce_max", best, [1]), score_threshold)
    first = b.cast(b.op("argmax", best, np.array(1, np.int32)), np.int32)
    is_first = b.equal(b.reshape(b.positions(best.sizes[1]), [1, -1]), first)
    is_out = b.spread("and", b.less(best, score_threshold), b.op("not_", b.spread("and", none, is_first)))
    return b.select(is_out, GONE, best)


def _corners(b: Builder, boxes: Tensor) -> list[Tensor]:
    """Left, top, right and bottom of boxes [n, B, 4], each [n, B]."""
    x, y, width, height = (b.squeeze(b.narrow(boxes, 2, place, place + 1), [2]) for place in range(4))
    across, down = b.mul(width, 0.5), b.mul(height, 0.5)
    return [b.sub(x, across), b.sub(y, down), b.add(x, across), b.add(y, down)]


def _taken_in_turn(b: Builder, scores: Tensor, spaces: list[Tensor], iou_threshold: float, most: int) -> Tensor:
    """Returns the indices [n, most] of the boxes that are taken, the best first, filled up with -1.

    Args:
        b: Writes the operations.
        scores: Score of each box, [n, B]; GONE for boxes that must not be taken.
        spaces: Left, top, right and bottom of each box, and its class if boxes drop only boxes of the same class.
        iou_threshold: A box whose intersection over union with a taken box is greater is dropped.
        most: Maximum number of boxes to take.
    """
    n, count = scores.sizes
    places = b.unfolded(b.constant(np.arange(count, dtype=np.float32)))
    slots = b.unfolded(b.constant(np.arange(most, dtype=np.float32)))
    fixed = [b.reshape(places, [1, -1]), b.reshape(slots, [1, -1]), *spaces]

    def body(values: list[Tensor]) -> list[Tensor]:
        remaining, taken, turn, _, places, slots, *spaces = values
        peak = b.reduce("reduce_max", remaining, [1])
        exists = b.greater(peak, GONE)
        top = b.reduce("reduce_min", b.select(b.equal(remaining, peak), places, float(count)), [1])
        is_top = b.equal(places, top)
        own = [b.reduce("reduce_max", b.select(is_top, space, GONE), [1]) for space in spaces]
        hidden = b.greater(_overlap(b, spaces[:4], own[:4]), iou_threshold)
        if len(spaces) > 4:
            hidden = b.spread("and", hidden, b.equal(spaces[4], own[4]))
        after = b.select(b.spread("or", hidden, is_top), GONE, remaining)
        at_slot = b.spread("and", b.equal(slots, turn), exists)
        turn = b.add(turn, 1)
        goes_on = b.spread(
            "and", b.greater(b.reduce("reduce_max", after, [0, 1], keep=False), GONE), b.less(turn, most)
        )
        return [after, b.select(at_slot, top, taken), turn, b.cast(goes_on, np.float32)]

    initial = [
        scores,
        b.constant(np.full((n, most), -1, np.float32)),
        b.constant(np.float32(0)),
        b.constant(np.float32(1)),
    ]
    kinds = [(item.shape, item.dtype) for item in initial]
    found = b.loop(initial, kinds, lambda values: b.greater(values[3], 0), body, fixed)
    return b.cast(found[1], np.int32)


def _overlap(b: Builder, boxes: list[Tensor], others: list[Tensor]) -> Tensor:
    """Intersection over union of each box with another box, 0 if both are empty; boxes are left, top, right, bottom."""

    def area(left: Tensor, top: Tensor, right: Tensor, bottom: Tensor) -> Tensor:
        return b.mul(b.sub(right, left), b.sub(bottom, top))

    low = [b.maximum(box, other) for box, other in zip(boxes[:2], others[:2], strict=True)]
    high = [b.minimum(box, other) for box, other in zip(boxes[2:], others[2:], strict=True)]
    shared = b.mul(b.maximum(b.sub(high[0], low[0]), 0), b.maximum(b.sub(high[1], low[1]), 0))
    union = b.sub(b.add(area(*boxes), area(*others)), shared)
    some = b.greater(union, 0)
    return b.select(some, b.div(shared, b.select(some, union, 1)), 0)
