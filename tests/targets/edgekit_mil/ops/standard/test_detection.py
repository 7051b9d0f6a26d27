from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
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


@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
@pytest.mark.parametrize("center_point_box", [0, 1])
@pytest.mark.parametrize("fed", [(2,), (3,), (4,), (2, 3, 4)], ids=["limit", "overlap", "least score", "all of them"])
@pytest.mark.parametrize(("limit", "overlap", "least"), [(4, 0.3, 0.4), (50, 0.05, 0.1), (3, 0.9, 0.99)])
def test_limits_that_are_inputs(agrees, rng, limit, overlap, least, fed, center_point_box, target):
    """As pages for the browser have them: sliders set the thresholds."""
    boxes, scores = scene(rng)
    settings = [np.array([limit], np.int64), np.array([overlap], np.float32), np.array([least], np.float32)]
    agrees(
        "NonMaxSuppression",
        [boxes, scores, *settings],
        fed=(0, 1, *fed),
        outputs=("int64",),
        target=target,
        center_point_box=center_point_box,
    )


def test_a_limit_of_none_that_is_an_input(agrees, rng):
    boxes, scores = scene(rng)
    inputs = [boxes, scores, np.array([0], np.int64), np.array([0.5], np.float32)]
    agrees("NonMaxSuppression", inputs, fed=(0, 1, 2), outputs=("int64",))


def test_equal_and_degenerate_boxes_with_an_overlap_that_is_an_input(agrees, rng):
    """Boxes without an area overlap nothing; of equal scores the first box is the better one."""
    boxes, scores = scene(rng, images=1, classes=1, count=12)
    boxes[0, 3], boxes[0, 7] = boxes[0, 2], boxes[0, 2]
    boxes[0, 5, 2:] = boxes[0, 5, :2]
    scores[0, 0, 2:8] = 0.5
    inputs = [boxes, scores, np.array([12], np.int64), np.array([0.4], np.float32)]
    agrees("NonMaxSuppression", inputs, fed=(0, 1, 3), outputs=("int64",))


def test_boxes_of_an_open_number_of_coordinates_are_refused(tmp_path):
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 2, n] boxes, float[1, 1, 2] scores, int64[1] limit, float[1] overlap) => (int64[k, 3] y)
        { y = NonMaxSuppression (boxes, scores, limit, overlap) }
    """)
    with pytest.raises(UnsupportedOpsError, match=r"needs fixed sizes, found 1×2×\?"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 5)})


def test_limit_of_none(lower, rng):
    boxes, scores = scene(rng)
    (result,) = lower("NonMaxSuppression", [boxes, scores], fed=(0, 1), outputs=("int64",))
    assert result.shape == (0, 3)


DETECTOR = """<ir_version: 8, opset_import: ["": 16]>
g (float[12] scores, float[12, 4] boxes, float[1, 3, 9, 11] features) => (float[K, 4] found, float[K, 3, 2, 2] pooled)
    <float low = {0.2}, int64[1] most = {8}, int64[1] first = {0}, int64[1] five = {5}, int64[1] axis = {0},
    int64[1] any_number = {9223372036854775807}, float[1] overlap = {0.3}, int64[1] flat = {-1}, int64 box = {2},
    int64[2] front = {0, 1}, int64 none = {0}> {
    good = Greater (scores, low)
    places = NonZero (good)
    place = Squeeze (places, axis)
    rated = Gather <axis = 0> (scores, place)
    count = Shape (rated)
    number = Min (count, most)
    best, order = TopK <axis = 0> (rated, number)
    chosen = Gather <axis = 0> (place, order)
    corners = Gather <axis = 0> (boxes, chosen)
    size = Size (best)
    is_empty = Equal (size, none)
    kept = If (is_empty) <
        then_branch = t () => (int64[N] a) { a = Constant <value = int64[0] {}> () },
        else_branch = e () => (int64[M] c) {
            corners3 = Unsqueeze (corners, axis)  best3 = Unsqueeze (best, front)
            triples = NonMaxSuppression (corners3, best3, any_number, overlap)
            c = Gather <axis = 1> (triples, box)
        }>
    some = Slice (kept, first, five)
    found = Gather <axis = 0> (corners, some)
    zeros = Sub (some, some)
    pooled = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2> (features, found, zeros)
}"""


def test_boxes_of_a_number_that_only_a_run_tells_are_suppressed_and_pooled(tmp_path, rng):
    """As torchvision's detectors have it: the greatest of those over a score, in a branch where there are any."""
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(DETECTOR))
    runner = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "m", precision="float32"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    boxes, _ = scene(rng, images=1, classes=1, count=12)
    for least in (0.0, 0.15, 0.9):
        feeds = {
            "scores": (rng.permutation(12).astype(np.float32) / 12) * (1 - least),
            "boxes": boxes[0],
            "features": rng.standard_normal((1, 3, 9, 11)).astype(np.float32),
        }
        found = runner.run(feeds)
        for name, wanted in zip(("found", "pooled"), session.run(None, feeds), strict=True):
            assert found[name].shape == wanted.shape
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)


def test_a_threshold_of_two_numbers_is_refused(lower, rng):
    boxes, scores = scene(rng)
    inputs = [boxes, scores, np.array([3], np.int64), np.array([0.5, 0.5], np.float32)]
    with pytest.raises(UnsupportedOpsError, match="takes one number, found 2"):
        lower("NonMaxSuppression", inputs, fed=(0, 1, 3), outputs=("int64",))


@pytest.mark.parametrize("place", [2, 3, 4])
@pytest.mark.parametrize("is_fed", [False, True])
def test_a_limit_or_threshold_of_no_number_is_refused(lower, rng, place, is_fed):
    boxes, scores = scene(rng)
    inputs = [boxes, scores, np.array([3], np.int64), np.array([0.5], np.float32), np.array([0.5], np.float32)]
    inputs[place] = inputs[place][:0]
    with pytest.raises(UnsupportedOpsError, match="takes one number, found 0"):
        lower("NonMaxSuppression", inputs, fed=(0, 1, place) if is_fed else (0, 1), outputs=("int64",))
