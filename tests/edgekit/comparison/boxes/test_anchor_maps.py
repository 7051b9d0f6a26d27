"""Detectors that end in maps of several grids of the picture."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from edgekit.comparison.boxes.anchor_maps import AnchorMaps, DistanceMaps, maps_of_grids
from edgekit.comparison.meaning import meaning_of
from edgekit.comparison.meaning_accuracy import ANCHORS, MeaningAccuracy
from edgekit.model import Arrays, ValueSpec

SIDE = 64
PICTURE = (ValueSpec("image", "float32", (1, 3, SIDE, SIDE)),)
SAMPLES = 3
STRIDES = (8, 16)
CELL = (2, 3)
"""Row and column of the cell that finds something in each grid."""


Compared = Callable[[list[Arrays], list[Arrays]], MeaningAccuracy]


def on_maps(seed: int) -> Arrays:
    """YOLOv5's without its last layer: 3 anchors a cell, box, objectness and 2 classes, all logits."""
    rng = np.random.default_rng(seed)
    answer = {}
    for stride in STRIDES:
        logits = rng.normal(size=(1, 3, 7, SIDE // stride, SIDE // stride))
        logits[:, :, 4] -= 8
        logits[:, 1, 4:6, 2, 3] = 5
        logits[:, 1, 6, 2, 3] = -5
        answer[f"stride{stride}"] = logits.reshape(1, 21, *logits.shape[3:]).astype(np.float32)
    return answer


def distances(seed: int, *, classes: int = 3, split: bool, scores: bool = False) -> Arrays:
    """YOLOv8's without its last layer: of each cell 4 × 16 logits of distances, and one of each class."""
    rng = np.random.default_rng(seed)
    answer: Arrays = {}
    for stride in STRIDES:
        grid = (SIDE // stride, SIDE // stride)
        bins, logits = rng.normal(size=(1, 64, *grid)), rng.normal(size=(1, classes, *grid)) - 8
        logits[:, 1, *CELL] = 2
        told = 1 / (1 + np.exp(-logits)) if scores else logits
        maps = {f"boxes{stride}": bins, f"classes{stride}": told} if split else {f"p{stride}": np.hstack([bins, told])}
        maps |= {f"sum{stride}": told.sum(axis=1, keepdims=True)} if scores else {}
        answer |= {name: array.astype(np.float32) for name, array in maps.items()}
    return answer


def reading(answers: list[Arrays]) -> AnchorMaps | DistanceMaps:
    found = maps_of_grids(answers, (SIDE, SIDE))
    assert found is not None
    assert pickle.loads(pickle.dumps(found)) == found
    return found


def test_anchors_of_maps_are_counted_in_both_models(compared: Compared) -> None:
    answers = [on_maps(seed) for seed in range(SAMPLES)]
    result = compared(answers, answers)
    assert (result.kind, result.count, result.wrong) == (ANCHORS, 2 * SAMPLES * len(STRIDES), 0)
    assert result.read_as == "logits of boxes and 2 classes of 3 anchors a cell that the app holds"


@pytest.mark.parametrize(
    ("split", "scores", "outputs"),
    [
        (False, False, ("p8", "p16")),
        (True, False, ("boxes8", "classes8", "boxes16", "classes16")),
        (True, True, ("boxes8", "classes8", "boxes16", "classes16", "sum8", "sum16")),
    ],
)
def test_cells_of_distances_are_counted_in_both_models(
    split: bool, scores: bool, outputs: tuple[str, ...], compared: Compared
) -> None:
    answers = [distances(seed, split=split, scores=scores) for seed in range(SAMPLES)]
    result = compared(answers, answers)
    assert (result.count, result.wrong, result.outputs) == (2 * SAMPLES * len(STRIDES), 0, outputs)
    assert result.read_as == "distances from the cells of 2 grids and 3 classes"
    found = reading(answers).read(answers[0])
    assert found.classes[found.scores >= 0.25].tolist() == [1, 1]
    np.testing.assert_allclose(found.scores.max(), 1 / (1 + np.exp(-2)), rtol=1e-6)


def test_distances_are_means_by_softmax_and_overlap_as_computed_by_hand(compared: Compared) -> None:
    """All of a distance's logits but one are -30: sides lie 3, 2, 5 and 4 cells away; then the right one 3 cells."""
    answers = [distances(seed, split=True) for seed in range(SAMPLES)]
    moved = []
    for answer in answers:
        for name in ("boxes8", "boxes16"):
            answer[name][:] = -30
            for side, cells in enumerate((3, 2, 5, 4)):
                answer[name][:, 16 * side + cells] = 30
        other = {name: array.copy() for name, array in answer.items()}
        for name in ("boxes8", "boxes16"):
            other[name][:, 32 + 5], other[name][:, 32 + 3] = -30, 30
        moved.append(other)
    found = reading(answers).read(answers[0])
    np.testing.assert_allclose(found.corners[found.scores >= 0.25], [[-3, -2, 5, 4]] * 2, atol=1e-9)
    assert compared(answers, moved).overlap == pytest.approx(6 * 6 / (8 * 6))


def test_as_many_classes_as_logits_of_distances_leave_the_map_of_scores_to_be_seen() -> None:
    """64 classes; outputs stand in either order."""
    answers = [distances(seed, split=True, classes=64) for seed in range(SAMPLES)]
    turned = [dict(reversed(answer.items())) for answer in answers]
    for each in (answers, turned):
        found = reading(each)
        assert isinstance(found, DistanceMaps)
        assert {grid.distances for grid in found.grids} == {"boxes8", "boxes16"}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("has_axis_of_anchors", [False, True])
def test_maps_of_anchors_are_read_in_every_order_of_axes(channels_last: bool, has_axis_of_anchors: bool) -> None:
    plain = [on_maps(seed) for seed in range(SAMPLES)]
    answers = []
    for answer in plain:
        split = {name: array.reshape(1, 3, 7, *array.shape[2:]) for name, array in answer.items()}
        if channels_last:
            form = {name: np.moveaxis(array, (1, 2), (3, 4)) for name, array in split.items()}
            form = (
                form
                if has_axis_of_anchors
                else {name: each.reshape(*each.shape[:3], 21) for name, each in form.items()}
            )
        else:
            form = {name: np.moveaxis(array, 2, 4) for name, array in split.items()} if has_axis_of_anchors else answer
        answers.append({name: np.ascontiguousarray(array) for name, array in form.items()})
    wanted, got = (np.sort(reading(several).read(several[0]).scores) for several in (plain, answers))
    np.testing.assert_array_equal(got, wanted)
    kinds = reading(answers).read(answers[0])
    assert set(kinds.classes[kinds.scores >= 0.25].tolist()) == {0}


def test_features_of_a_pyramid_are_no_maps_of_anchors(rng: np.random.Generator) -> None:
    answers = [
        {f"p{side}": rng.normal(size=(1, 96, side, side)).astype(np.float32) for side in (8, 4)} for _ in range(SAMPLES)
    ]
    assert meaning_of(answers, PICTURE) is None


def test_one_map_alone_is_none_of_anchors() -> None:
    """Logits of classes at every pixel have as many channels, too."""
    answers = [{"stride8": on_maps(seed)["stride8"]} for seed in range(SAMPLES)]
    assert meaning_of(answers, PICTURE) is None


def test_too_few_anchors_prove_nothing(compared: Compared) -> None:
    answers = [on_maps(0)]
    result = compared(answers, answers)
    assert not result.proves
    assert result.too_few == (
        "2 anchors are found on the samples, fewer than the 10 that a judgement needs: anchors are judged as "
        "numbers; give samples that show more"
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
