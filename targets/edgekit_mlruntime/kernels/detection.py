"""Non-maximum suppression."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel

_PADDING_INDEX = -1


@kernel("non_maximum_suppression")
def non_maximum_suppression_by_score(
    call: Call,
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    score_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Choose boxes in the order of their scores, and drop boxes that overlap an earlier one too much.

    A box's score is that of its best class. If no score reaches ``score_threshold``, the best box is chosen anyway.

    Args:
        call: The operation.
        boxes: [n, B, 4]: centre (x, y), width, height.
        scores: [n, B, K].
        iou_threshold: A box is dropped if its intersection over union with an earlier one is greater than this.
        score_threshold: Boxes with a lower score are left out.
        max_boxes: Maximum number of boxes.
        per_class_suppression: Whether a box drops only boxes with the same best class.

    Returns:
        Boxes [n, max_boxes, 4] and scores [n, max_boxes, K], filled up with 0; indices [n, max_boxes], filled up with
        -1; the number of boxes [n].
    """
    chosen = [
        _suppress(box, score, iou_threshold, score_threshold, max_boxes, per_class_suppression)
        for box, score in zip(boxes, scores, strict=True)
    ]
    counts = np.array([len(indices) for indices in chosen], np.int32)
    return (*_collect(boxes, scores, chosen, max_boxes), counts)


@kernel("non_maximum_suppression", opset=17)
def non_maximum_suppression(
    call: Call,
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Array, Array, Array]:
    """``non_maximum_suppression_by_score`` without a score threshold, and with the boxes along the last axis.

    Args:
        call: The operation.
        boxes: [n, 4, B]: centre (x, y), width, height.
        scores: [n, K, B].
        iou_threshold: A box is dropped if its intersection over union with an earlier one is greater than this.
        max_boxes: Maximum number of boxes.
        per_class_suppression: Whether a box drops only boxes with the same best class.

    Returns:
        Boxes [n, 4, max_boxes] and scores [n, K, max_boxes], filled up with 0; indices [n, max_boxes], filled up with
        -1.
    """
    boxes, scores = boxes.swapaxes(1, 2), scores.swapaxes(1, 2)
    chosen = [
        _suppress(box, score, iou_threshold, -np.inf, max_boxes, per_class_suppression)
        for box, score in zip(boxes, scores, strict=True)
    ]
    out_boxes, out_scores, indices = _collect(boxes, scores, chosen, max_boxes)
    return out_boxes.swapaxes(1, 2), out_scores.swapaxes(1, 2), indices


def _suppress(
    boxes: Array, scores: Array, iou_threshold: float, score_threshold: float, max_boxes: int, per_class: bool
) -> Array:
    """Indices of the chosen boxes of one image, best first."""
    best = scores.max(axis=1)
    classes = scores.argmax(axis=1)
    order = np.argsort(-best, kind="stable")
    left = order[best[order] >= score_threshold]
    if not left.size:
        return order[:1]
    chosen: list[int] = []
    while left.size and len(chosen) < max_boxes:
        index, left = left[0], left[1:]
        chosen.append(index)
        dropped = _overlap(boxes[index], boxes[left]) > iou_threshold
        if per_class:
            dropped &= classes[left] == classes[index]
        left = left[~dropped]
    return np.array(chosen, np.intp)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of a box [4] with others [N, 4]; 0 where both are empty."""
    low = np.maximum(box[:2] - box[2:] / 2, others[:, :2] - others[:, 2:] / 2)
    high = np.minimum(box[:2] + box[2:] / 2, others[:, :2] + others[:, 2:] / 2)
    intersection = np.maximum(high - low, 0).prod(axis=1)
    union = box[2:].prod() + others[:, 2:].prod(axis=1) - intersection
    return np.asarray(np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0))


def _collect(boxes: Array, scores: Array, chosen: list[Array], max_boxes: int) -> tuple[Array, Array, Array]:
    """Boxes, scores and indices of the chosen boxes, filled up to ``max_boxes``."""
    out_boxes = np.zeros((len(chosen), max_boxes, boxes.shape[2]), np.float32)
    out_scores = np.zeros((len(chosen), max_boxes, scores.shape[2]), np.float32)
    out_indices = np.full((len(chosen), max_boxes), _PADDING_INDEX, np.int32)
    for image, indices in enumerate(chosen):
        count = len(indices)
        out_boxes[image, :count] = boxes[image, indices]
        out_scores[image, :count] = scores[image, indices]
        out_indices[image, :count] = indices
    return out_boxes, out_scores, out_indices
