"""Non-maximum suppression."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Infeasible, Value, computed
from edgekit_mil.support.greedy_suppression import LOWEST, greedily_suppressed
from edgekit_mil.support.iteration import plain, scalar
from edgekit_mil.support.movement import empty
from edgekit_mil.support.runtime_shapes import most_of, or_rest, positions_of


@lowering("NonMaxSuppression", versions=[10, 11])
def non_max_suppression(
    ctx: Context,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Indices [K, 3] (image, class, box) of the best boxes, none of which overlaps a better one of its class too much.

    Boxes are [n, N, 4], scores [n, classes, N]. The number of chosen boxes is known only at run time. So may be N, if
    it has a known limit, or n.
    """
    (classes,) = scores.static_sizes([1])
    boxes.static_sizes([2])  # required: a box is four numbers
    images = or_rest(scores.shape[0])
    if images < 0:
        scores.static_sizes([2])  # required: a reshape has one open size
    most = most_of(scores.shape[2])
    count = 0.0 if max_output_boxes_per_class is None else _number(max_output_boxes_per_class)
    limit = most if isinstance(count, Var) else min(int(count), most)
    if limit <= 0:
        return empty(ir.DataType.INT64, (0, 3))
    overlap = 0.0 if iou_threshold is None else _number(iou_threshold)
    least = LOWEST if score_threshold is None else _number(score_threshold)
    centred = boxes.var if center_point_box else _centred(boxes.var)
    # Each class of each image is an image of one class to Core ML.
    problems = images * classes if images >= 0 else images
    apart = mb.tile(x=mb.expand_dims(x=centred, axes=[1]), reps=[1, classes, 1, 1])
    per_class = mb.reshape(x=apart, shape=[problems, or_rest(scores.shape[2]), 4])
    if isinstance(overlap, Var):
        scores.static_sizes([0, 2])  # required: the remaining boxes keep this size from turn to turn
        rated = mb.reshape(x=scores.var, shape=[problems, most])
        chosen, kept_scores = greedily_suppressed(per_class, rated, overlap, least, limit)
    else:
        rated = mb.reshape(x=scores.var, shape=[problems, or_rest(scores.shape[2]), 1])
        chosen, kept_scores = _suppressed(ctx, per_class, rated, overlap, limit)
    kept = mb.greater_equal(x=chosen, y=0)
    if score_threshold is not None:
        kept = mb.logical_and(x=kept, y=mb.greater(x=kept_scores, y=least))
    if isinstance(count, Var):
        turns = np.arange(limit, dtype=np.int32).reshape(1, -1)
        kept = mb.logical_and(x=kept, y=mb.less(x=turns, y=count))
    places = positions_of(mb.cast(x=kept, dtype="int32"))
    box = mb.expand_dims(x=mb.gather_nd(x=chosen, indices=places), axes=[1])
    problem = mb.slice_by_index(x=places, begin=[0, 0], end=[0, 1], begin_mask=[True, False], end_mask=[True, False])
    image = mb.floor_div(x=problem, y=np.int32(classes))
    category = mb.mod(x=problem, y=np.int32(classes))
    return computed(mb.concat(values=[image, category, box], axis=1), ir.DataType.INT64)


def _number(value: Value) -> float | Var:
    """A limit or threshold: a number, or a scalar of the program if it is known only at run time.

    Raises:
        Infeasible: It has no elements.
    """
    if 0 in value.shape:
        raise Infeasible("takes one number, found 0")
    if value.constant is not None:
        number = value.constant.reshape(-1)[0]
        return float(number) if value.dtype.is_integer() else np.float32(number)
    return plain(scalar(value))


def _centred(boxes: Var) -> Var:
    """Converts boxes from two opposite corners (y, x, y, x) to center (x, y), width, height."""
    ends = mb.split(x=boxes, num_splits=4, axis=2)
    centres, extents = [], []
    for one, other in ((ends[1], ends[3]), (ends[0], ends[2])):
        extent = mb.sub(x=mb.maximum(x=one, y=other), y=mb.minimum(x=one, y=other))
        centres.append(mb.add(x=mb.minimum(x=one, y=other), y=mb.mul(x=extent, y=0.5)))
        extents.append(extent)
    return mb.concat(values=[*centres, *extents], axis=2)


def _suppressed(ctx: Context, boxes: Var, scores: Var, overlap: float, limit: int) -> tuple[Var, Var]:
    """Indices of the chosen boxes and their scores, both [n, limit], of boxes [n, N, 4] and scores [n, N, 1].

    If fewer are chosen, the remaining indices are -1.
    """
    shape = [or_rest(boxes.shape[0]), limit]
    if ctx.at_least(ct.target.iOS17):
        _, kept, indices = mb.non_maximum_suppression(
            boxes=mb.transpose(x=boxes, perm=[0, 2, 1]),
            scores=mb.transpose(x=scores, perm=[0, 2, 1]),
            iou_threshold=overlap,
            max_boxes=limit,
        )
        return indices, mb.reshape(x=kept, shape=shape)
    _, kept, indices, _ = mb.non_maximum_suppression(
        boxes=boxes, scores=scores, iou_threshold=overlap, score_threshold=LOWEST, max_boxes=limit
    )
    return indices, mb.reshape(x=kept, shape=shape)
