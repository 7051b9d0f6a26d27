"""Non-maximum suppression with an overlap known only at run time; Core ML's operation takes a constant one."""

from __future__ import annotations

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.support.iteration import opaque, plain

LOWEST = float(np.finfo(np.float32).min)


def greedily_suppressed(boxes: Var, scores: Var, overlap: Var, least: Var | float, limit: int) -> tuple[Var, Var]:
    """Chooses one box of each problem in each turn: the best one left. Boxes that overlap it too much are taken out.

    Args:
        boxes: [P, N, 4] float32, N fixed: center (x, y), width, height.
        scores: [P, N] float32.
        overlap: Boxes whose intersection over union with a chosen one is larger are taken out; a scalar.
        least: Only boxes with larger scores are chosen.
        limit: The largest number of boxes that are chosen of each problem.

    Returns:
        Indices of the chosen boxes, int32, and their scores, both [P, limit]. If fewer are chosen, the remaining
        indices are -1.
    """
    problems, count = scores.shape
    numbers = np.arange(count, dtype=np.int32).reshape(1, -1)
    turns = np.arange(limit, dtype=np.int32).reshape(1, -1)
    low, high, area = _extents(boxes)

    def goes_on(turn: Var, left: Var, *_: Var) -> Var:
        best = mb.reduce_max(x=left, axes=[0, 1], keep_dims=False)
        return mb.logical_and(x=mb.less(x=turn, y=np.int32(limit)), y=mb.greater(x=plain(best), y=least))

    def chosen_and_left(turn: Var, left: Var, chosen: Var, kept: Var) -> list[Var]:
        score = mb.reduce_max(x=left, axes=[1], keep_dims=True)
        best = mb.reduce_argmax(x=left, axis=1, keep_dims=True)
        is_best = mb.equal(x=best, y=numbers)
        is_good = mb.greater(x=score, y=least)
        share = mb.expand_dims(x=mb.cast(x=is_best, dtype="fp32"), axes=[2])
        sides = [mb.reduce_sum(x=mb.mul(x=each, y=share), axes=[1], keep_dims=True) for each in (low, high, area)]
        shared = mb.sub(x=mb.minimum(x=high, y=sides[1]), y=mb.maximum(x=low, y=sides[0]))
        inner = mb.reduce_prod(x=mb.maximum(x=shared, y=0.0), axes=[2], keep_dims=True)
        union = mb.sub(x=mb.add(x=area, y=sides[2]), y=inner)
        is_over = mb.greater(x=inner, y=mb.mul(x=union, y=overlap))
        out = mb.logical_or(x=mb.squeeze(x=is_over, axes=[2]), y=is_best)
        here = mb.logical_and(x=mb.equal(x=turn, y=turns), y=is_good)
        return [
            mb.add(x=turn, y=np.int32(1)),
            mb.select(cond=out, a=LOWEST, b=left),
            mb.select(cond=here, a=best, b=chosen),
            mb.select(cond=here, a=score, b=kept),
        ]

    nothing = mb.const(val=np.full((problems, limit), -1, np.int32))
    no_scores = mb.const(val=np.full((problems, limit), LOWEST, np.float32))
    loop_vars = (opaque(mb.const(val=np.int32(0))), scores, opaque(nothing), opaque(no_scores))
    _, _, indices, kept = mb.while_loop(_cond=goes_on, _body=chosen_and_left, loop_vars=loop_vars)
    return indices, kept


def _extents(boxes: Var) -> tuple[Var, Var, Var]:
    """Lower and upper corners [P, N, 2] and areas [P, N, 1]."""
    centres, sizes = mb.split(x=boxes, num_splits=2, axis=2)
    half = mb.mul(x=sizes, y=0.5)
    low, high = mb.sub(x=centres, y=half), mb.add(x=centres, y=half)
    return low, high, mb.reduce_prod(x=sizes, axes=[2], keep_dims=True)
