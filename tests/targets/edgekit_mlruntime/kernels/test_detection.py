from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

# Three boxes on top of each other, one apart. Of two boxes side by side by 1, two thirds of each overlap: 0.5.
BOXES = np.array([[[0, 0, 3, 3], [1, 0, 3, 3], [0.5, 0, 3, 3], [10, 10, 2, 2]]], np.float32)
SCORES = np.array([[[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.05, 0.04]]], np.float32)
FOUR = ["float32", "float32", "int32", "int32"]


def suppress(run_op, **overrides):
    inputs = {
        "boxes": BOXES, "scores": SCORES, "iou_threshold": 0.4, "score_threshold": 0.01, "max_boxes": 4,
        "per_class_suppression": False,
    }  # fmt: skip
    return run_op("non_maximum_suppression", **(inputs | overrides), fed=["boxes", "scores"], dtypes=FOUR)


def test_overlapping_boxes_are_suppressed_and_outputs_filled_up(run_op):
    boxes, scores, indices, count = suppress(run_op)
    np.testing.assert_array_equal(indices, [[0, 3, -1, -1]])
    np.testing.assert_array_equal(count, [2])
    np.testing.assert_array_equal(boxes[0], [*BOXES[0, [0, 3]], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(scores[0], [*SCORES[0, [0, 3]], [0] * 2, [0] * 2])


def test_classes_may_be_suppressed_apart(run_op):
    _, _, indices, count = suppress(run_op, per_class_suppression=True)
    np.testing.assert_array_equal(indices, [[0, 1, 3, -1]])
    np.testing.assert_array_equal(count, [3])


def test_only_greater_overlaps_are_suppressed(run_op):
    _, _, indices, _ = suppress(run_op, iou_threshold=0.5)
    np.testing.assert_array_equal(indices, [[0, 1, 3, -1]])


def test_the_number_of_boxes_is_limited(run_op):
    _, _, indices, count = suppress(run_op, iou_threshold=0.99, max_boxes=2)
    np.testing.assert_array_equal(indices, [[0, 1]])
    np.testing.assert_array_equal(count, [2])


def test_low_scores_are_left_out(run_op):
    _, _, indices, _ = suppress(run_op, iou_threshold=0.99, score_threshold=0.8)
    np.testing.assert_array_equal(indices, [[0, 1, -1, -1]])


def test_the_best_box_stays_where_no_score_is_enough(run_op):
    _, _, indices, count = suppress(run_op, score_threshold=5.0)
    np.testing.assert_array_equal(indices, [[0, -1, -1, -1]])
    np.testing.assert_array_equal(count, [1])


def test_from_ios_17_boxes_lie_along_the_last_axis(run_op):
    boxes, scores, indices = run_op(
        "non_maximum_suppression", boxes=BOXES.swapaxes(1, 2), scores=SCORES.swapaxes(1, 2), iou_threshold=0.4,
        max_boxes=3, ios=17, fed=["boxes", "scores"], dtypes=FOUR[:3],
    )  # fmt: skip
    np.testing.assert_array_equal(indices, [[0, 3, -1]])
    np.testing.assert_array_equal(boxes[0].T, [*BOXES[0, [0, 3]], [0] * 4])
    np.testing.assert_array_equal(scores[0].T, [*SCORES[0, [0, 3]], [0] * 2])


@pytest.mark.parametrize("iou_threshold", [0.05, 0.3, 0.7])
def test_agrees_with_onnxruntime(run_op, rng, iou_threshold):
    boxes = np.concatenate([rng.uniform(0, 10, (3, 60, 2)), rng.uniform(0.5, 4, (3, 60, 2))], -1).astype(np.float32)
    scores = rng.uniform(0, 1, (3, 60, 5)).astype(np.float32)
    names = ["boxes", "scores", "count", "iou", "score"]
    node = onnx.helper.make_node("NonMaxSuppression", names, ["selected"], center_point_box=1)
    types = [onnx.TensorProto.FLOAT] * 2 + [onnx.TensorProto.INT64] + [onnx.TensorProto.FLOAT] * 2
    tensors = [onnx.helper.make_tensor_value_info(*pair, None) for pair in zip(names, types, strict=True)]
    output = onnx.helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, None)
    graph = onnx.helper.make_graph([node], "g", tensors, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {
        "boxes": boxes, "scores": scores.max(-1)[:, None], "count": np.array([20]),
        "iou": np.array([iou_threshold], np.float32), "score": np.array([0.5], np.float32),
    }  # fmt: skip
    (selected,) = session.run(None, feeds)
    _, _, indices, count = suppress(
        run_op, boxes=boxes, scores=scores, iou_threshold=iou_threshold, score_threshold=0.5, max_boxes=20
    )
    for image in range(3):
        expected = selected[selected[:, 0] == image, 2]
        assert count[image] == len(expected)
        np.testing.assert_array_equal(indices[image, : len(expected)], expected)
