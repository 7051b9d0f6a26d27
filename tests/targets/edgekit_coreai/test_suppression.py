"""The choice of boxes that do not overlap, beside one that takes one box after the other."""

from __future__ import annotations

from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813 - as everybody calls it

import edgekit_coreai
from edgekit_coreai.conversion import translate_package

COUNT = 200


def taken(boxes: np.ndarray, scores: np.ndarray, least_overlap: float, most: int) -> list[int]:
    """Indices of the boxes: centre x and y, width, height."""
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1).astype(np.float64)
    areas = (corners[:, 2:] - corners[:, :2]).prod(1)
    found: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        low = np.maximum(corners[found, :2], corners[place, :2])
        high = np.minimum(corners[found, 2:], corners[place, 2:])
        shared = np.maximum(high - low, 0).prod(1)
        if (shared / (areas[found] + areas[place] - shared) <= least_overlap).all():
            found.append(int(place))
    return found[:most]


@pytest.mark.parametrize("most", [20, 100])
def test_boxes_are_chosen_as_by_taking_one_after_the_other(tmp_path: Path, most: int) -> None:
    @mb.program(input_specs=[mb.TensorSpec((2, 4, COUNT)), mb.TensorSpec((2, 1, COUNT))], opset_version=ct.target.iOS17)
    def program(boxes, scores):  # type: ignore[no-untyped-def]
        return mb.non_maximum_suppression(
            boxes=boxes, scores=scores, iou_threshold=0.3, max_boxes=most, per_class_suppression=False
        )[2]

    model = ct.convert(program, minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT32)
    path = tmp_path / "suppression.mlpackage"
    model.save(str(path))
    random = np.random.default_rng(5)
    boxes = np.concatenate([random.random((2, 2, COUNT)) * 120, random.random((2, 2, COUNT)) * 12 + 4], 1)
    scores = random.random((2, 1, COUNT)).round(2)  # some are equal
    feeds = {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32)}
    translated = translate_package(path, tmp_path / "suppression")
    assert sum(file.stat().st_size for file in translated.iterdir()) < COUNT * COUNT  # nothing is stored for each pair
    (indices,) = edgekit_coreai.load(translated).run(feeds).values()
    for image in range(2):
        expected = taken(feeds["boxes"][image].T, feeds["scores"][image, 0], 0.3, most)
        assert len(expected) > min(most, 64) - 1
        assert indices[image].tolist() == expected + [-1] * (most - len(expected))
