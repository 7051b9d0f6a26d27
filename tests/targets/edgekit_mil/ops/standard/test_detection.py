from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def scene(rng, images=2, classes=3, count=20):
    corners = rng.uniform(0, 10, (images, count, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 5, corners.shape)], axis=2)
    return boxes.astype(np.float32), rng.uniform(0, 1, (images, classes, count)).astype(np.float32)


@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
@pytest.mark.parametrize("center_point_box", [0, 1])
@pytest.mark.parametrize(("limit", "overlap", "least"), [(4, 0.3, 0.4), (50, 0.1, None), (3, None, 0.99)])
def test_agrees_with_onnxruntime(agrees, rng, limit, overlap, least, center_point_box, target):
    boxes, scores = scene(rng)
    inputs = [
        boxes,
        scores,
        np.array([limit], np.int64),
        None if overlap is None else np.array([overlap], np.float32),
        None if least is None else np.array([least], np.float32),
    ]
    agrees(
        "NonMaxSuppression",
        inputs,
        fed=(0, 1),
        outputs=("int64",),
        target=target,
        center_point_box=center_point_box,
    )


def test_corners_in_any_order(agrees, rng):
    boxes, scores = scene(rng, images=1, classes=1)
    flipped = boxes[..., [2, 1, 0, 3]]
    inputs = [flipped, scores, np.array([10], np.int64), np.array([0.3], np.float32)]
    agrees("NonMaxSuppression", inputs, fed=(0, 1), outputs=("int64",))


def test_threshold_computed_at_run_time_is_refused(lower, rng):
    boxes, scores = scene(rng)
    inputs = [boxes, scores, np.array([10], np.int64), np.array([0.3], np.float32)]
    with pytest.raises(UnsupportedOpsError, match="iou_threshold"):
        lower("NonMaxSuppression", inputs, fed=(0, 1, 3), outputs=("int64",))


def test_limit_of_none(lower, rng):
    boxes, scores = scene(rng)
    (result,) = lower("NonMaxSuppression", [boxes, scores], fed=(0, 1), outputs=("int64",))
    assert result.shape == (0, 3)
