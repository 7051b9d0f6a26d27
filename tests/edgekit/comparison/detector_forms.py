"""Outputs of detectors in the forms that exporters give them, and boxes that they hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgekit.comparison.boxes.matching import Boxes
from edgekit.model import Arrays, ValueSpec

PICTURE = (ValueSpec("image", "float32", (1, 3, 64, 64)),)
ROWS = 400
CLASSES = 3
OBJECTS = [(10.0, 12.0, 30.0, 40.0, 0.9, 0), (40.0, 8.0, 60.0, 24.0, 0.8, 2), (5.0, 44.0, 25.0, 60.0, 0.7, 1)]
"""Left, top, right, bottom, score, class."""

Form = Callable[[np.ndarray, np.ndarray], Arrays]


def dense(rng: np.random.Generator, move: float = 0.0, forget: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Corners (rows, 4) and scores (rows, classes): each object in five rows, nearly the same, and much background."""
    corners = np.sort(rng.uniform(0, 64, (ROWS, 2, 2)), axis=1).reshape(ROWS, 4)
    scores = rng.uniform(0, 0.05, (ROWS, CLASSES))
    places = np.random.default_rng(5).permutation(ROWS)
    for number, (*box, score, kind) in enumerate(OBJECTS):
        for row in places[5 * number : 5 * number + 5]:
            corners[row] = np.array(box) + rng.uniform(-0.5, 0.5, 4) + move
            scores[row, kind] = 0.01 if number < forget else score - rng.uniform(0, 0.1)
    return corners, scores


def centred(corners: np.ndarray) -> np.ndarray:
    low, high = corners[:, :2], corners[:, 2:]
    return np.hstack([(low + high) / 2, high - low])


def yolo8(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    return {"output0": np.hstack([centred(corners), scores]).T[np.newaxis].astype(np.float32)}


def with_keypoints(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    keypoints = np.tile(corners[:, :2] * 3 - 20, (1, 2))
    return {"output0": np.hstack([centred(corners), scores, keypoints]).T[np.newaxis].astype(np.float32)}


def yolo5(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    many = np.ones((3, 1)), [np.vstack([each] * 3) for each in (centred(corners), scores)]
    there = many[1][1].max(axis=1, keepdims=True)
    return {"output": np.hstack([many[1][0], there, many[1][1] / there])[np.newaxis].astype(np.float32)}


def boxes_and_scores(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    background = 1 - scores.sum(axis=1, keepdims=True)
    return {
        "boxes": corners[np.newaxis].astype(np.float32) / 64,
        "scores": np.hstack([background, scores])[np.newaxis].astype(np.float32),
    }


def logits_of_queries(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    return {
        "logits": np.log(scores / (1 - scores))[np.newaxis].astype(np.float32),
        "pred_boxes": centred(corners / 64)[np.newaxis].astype(np.float32),
    }


def softmax_of_queries(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    outputs = boxes_and_scores(corners, scores)
    return {"logits": np.log(outputs["scores"]) + 4, "pred_boxes": centred(corners / 64).astype(np.float32)[np.newaxis]}


def after_suppression(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    found = Boxes(corners, scores.max(axis=1), scores.argmax(axis=1)).suppressed()
    rows = np.zeros((1, 20, 6), np.float32)
    rows[0, : len(found)] = np.hstack([found.corners, found.scores[:, None], found.classes[:, None]])
    return {"output0": rows}


def many_after_suppression(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    rows = after_suppression(corners, scores)["output0"]
    return {"output0": np.pad(rows, ((0, 0), (0, 280), (0, 0)))}


def in_vectors(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    rows = after_suppression(corners, scores)["output0"]
    return {"boxes": rows[..., :4], "scores": rows[..., 4], "classes": rows[..., 5].astype(np.int64)}


FORMS: list[Form] = [
    yolo8,
    with_keypoints,
    yolo5,
    boxes_and_scores,
    logits_of_queries,
    softmax_of_queries,
    after_suppression,
    many_after_suppression,
    in_vectors,
]
