from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import edgekit
from edgekit.comparison.boxes.attributes import AttributeAccuracy, AttributeTally
from edgekit.comparison.boxes.matching import Boxes
from edgekit.comparison.meaning import meaning_of
from edgekit.comparison.meaning_accuracy import MeaningAccuracy
from edgekit.model import Arrays, ValueSpec

PICTURE = (ValueSpec("image", "float32", (1, 3, 64, 64)),)
SCHEMA = json.loads((Path(edgekit.__file__).parent / "manifest.schema.json").read_text())
ONE_BOX = np.array([[20.0, 20.0, 40.0, 30.0]])
"""20 by 10 pixels: an area of 200, of which 0.53 is the object's."""


def beside(corners: np.ndarray, reference: Any, built: Any, rows: Any = None) -> AttributeAccuracy | None:
    found = AttributeTally()
    ones = np.ones(len(corners))
    ours, theirs = (Boxes(corners, ones, ones, np.asarray(each, float)) for each in (reference, built))
    pairs = [(place, place) for place in range(len(corners))]
    found.add(ours, theirs, pairs, np.asarray(reference if rows is None else rows, float))
    return found.result()


def test_the_similarity_of_key_points_is_that_of_coco() -> None:
    """One point is 3 pixels away to the right and 4 down, the other stays."""
    found = beside(ONE_BOX, [[22, 22, 35, 28]], [[25, 26, 35, 28]])
    one = math.exp(-(3**2 + 4**2) / (2 * 0.53 * 200 * 0.134**2))
    assert found == AttributeAccuracy("key points", 4, 1, pytest.approx((one + 1) / 2))


def test_points_that_nobody_sees_do_not_count_and_those_that_vanish_are_lost() -> None:
    points = [[22, 22, 0.9, 35, 28, 0.2, 30, 25, 0.8]]
    assert beside(ONE_BOX, points, [[22, 22, 0.6, 0, 0, 0.9, 30, 25, 0.3]]) == AttributeAccuracy(
        "key points", 9, 1, 1.0
    )
    assert beside(ONE_BOX, points, [[22, 22, 0.6, 35, 28, 0.2, 30, 25, 0.2]]) == AttributeAccuracy(
        "key points", 9, 1, 0.5
    )


def test_coefficients_are_no_points(rng: np.random.Generator) -> None:
    """They are near 0, where the boxes are not; what is lost is held against how they vary over all rows."""
    rows = rng.normal(size=(500, 32))
    boxes = np.tile(ONE_BOX, (30, 1))
    noise = 0.1 * rng.normal(size=(30, 32))
    found = beside(boxes, rows[:30], rows[:30] + noise, rows)
    assert found is not None
    assert (found.kind, found.columns) == ("numbers", 32)
    assert found.kept == pytest.approx(1 - (np.square(noise).mean(axis=0) / rows.var(axis=0)).mean())
    turned = beside(boxes, rows[:30], -rows[:30], rows)
    assert turned is not None
    assert turned.flaw is not None
    assert turned.flaw.startswith("boxes of both models: 0.00")
    assert turned.flaw.endswith(" of the variance of their 32 other numbers kept (at least 0.9)")


def test_an_angle_ends_where_it_begins() -> None:
    angles = np.linspace(-0.78, 2.3, 30)[:, None]
    boxes = np.tile(ONE_BOX, (30, 1))
    same = beside(boxes, angles, angles + np.where(angles > 1, -np.pi, 0))
    assert same is not None
    assert (same.kind, same.kept) == ("angle", pytest.approx(1))
    other = beside(boxes, angles, -angles + 0.3)
    assert other is not None
    assert other.flaw is not None


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def rows_of_a_detector(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Corners (400, 4) and scores (400, 3): three objects and much background."""
    low = rng.uniform(0, 40, (400, 2))
    corners = np.hstack([low, low + rng.uniform(8, 24, (400, 2))])
    scores = rng.uniform(0, 0.05, (400, 3))
    corners[:3] = [[10, 12, 30, 40], [40, 8, 60, 24], [5, 44, 25, 60]]
    scores[:3] = np.eye(3) * 0.9
    return corners, scores


def judged(columns: Any, change: Any) -> MeaningAccuracy:
    """Judges a detector with more columns behind its boxes, on eight samples; both models' boxes are equal."""
    answers: list[tuple[Arrays, Arrays]] = []
    for seed in range(8):
        corners, scores = rows_of_a_detector(np.random.default_rng(seed))
        centres, sizes = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        more = columns(np.random.default_rng(seed), corners)
        answers.append(
            tuple(  # type: ignore[arg-type]
                {"output0": np.hstack([centres, sizes, scores, each]).T[np.newaxis].astype(np.float32)}
                for each in (more, change(more))
            )
        )
    meaning = meaning_of([reference for reference, _ in answers], PICTURE, 3)
    assert meaning is not None
    for reference, built in answers:
        meaning.add(reference, built)
    return meaning.result()


def face(rng: np.random.Generator, corners: np.ndarray) -> np.ndarray:
    """Five points, at fixed places of each box."""
    places = np.array([[0.3, 0.3], [0.7, 0.3], [0.5, 0.5], [0.35, 0.8], [0.65, 0.8]])
    low, size = corners[:, None, :2], (corners[:, 2:] - corners[:, :2])[:, None]
    return (low + places * size).reshape(len(corners), 10)


def coefficients(rng: np.random.Generator, corners: np.ndarray) -> np.ndarray:
    return rng.normal(size=(len(corners), 8))


@pytest.mark.parametrize(
    ("columns", "change", "kind", "holds"),
    [
        (face, lambda points: points + 0.2, "key points", True),
        (face, lambda points: points + 8, "key points", False),
        (coefficients, lambda numbers: numbers * 0.95, "numbers", True),
        (coefficients, lambda numbers: -numbers, "numbers", False),
    ],
)
def test_what_stands_beside_equal_boxes_counts(columns: Any, change: Any, kind: str, holds: bool) -> None:
    found = judged(columns, change)
    assert found.wrong == 0
    assert found.proves
    assert found.beside is not None
    assert found.beside.kind == kind
    assert (found.shortfall(0.95) is None) == holds
    schema = {"$ref": "#/$defs/accuracy/properties/meaning", "$defs": SCHEMA["$defs"]}
    jsonschema.validate(found.as_record(), schema)
