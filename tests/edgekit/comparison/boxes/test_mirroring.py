"""Mirrored pictures tell which coordinate of a box comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgekit.comparison.meaning import BoxMeaning
from edgekit.comparison.side_by_side import meaning_on
from edgekit.model import Arrays, ValueSpec


class Blobs:
    """A detector of bright rectangles on black, a class for each brightness, whose boxes stand in vectors."""

    executed_by = "blobs"
    states = open_dims = class_names = ()
    declared = None
    graph = None

    def __init__(self, *, y_first: bool, shares: bool, channels_last: bool) -> None:
        self.y_first, self.shares, self.channels_last = y_first, shares, channels_last
        self.fed_inputs = (ValueSpec("image", "float32", (1, 40, 80, 3) if channels_last else (1, 3, 40, 80)),)

    def __iter__(self) -> Iterator[SimpleNamespace]:
        for left, top in [(4, 3), (50, 20), (31, 9)]:
            pixels = np.zeros((40, 80), np.float32)
            pixels[top : top + 10, left : left + 20] = 1
            pixels[30:36, 60:75] = 2
            planes = np.stack([pixels] * 3, axis=2 if self.channels_last else 0)[np.newaxis]
            yield SimpleNamespace(feeds={"image": planes})

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        picture = feeds["image"][0, :, :, 0] if self.channels_last else feeds["image"][0, 0]
        boxes, scores = np.zeros((1, 8, 4), np.float32), np.zeros((1, 8), np.float32)
        for kind in (1, 2):
            rows, columns = np.nonzero(picture == kind)
            corners = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            if self.shares:
                corners = [corner / size for corner, size in zip(corners, (80, 40) * 2, strict=True)]
            boxes[0, kind] = [corners[place] for place in ((1, 0, 3, 2) if self.y_first else (0, 1, 2, 3))]
            scores[0, kind] = 0.9
        return {"boxes": boxes, "scores": scores, "kinds": np.arange(8, dtype=np.float32)[np.newaxis]}


@pytest.mark.parametrize("y_first", [False, True])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_mirrored_pictures_tell_which_coordinate_comes_first(y_first: bool, shares: bool, channels_last: bool) -> None:
    blobs: Any = Blobs(y_first=y_first, shares=shares, channels_last=channels_last)
    meaning = meaning_on(blobs, blobs, blobs)
    assert isinstance(meaning, BoxMeaning)
    record = meaning.result().as_record()
    assert record["boxes"]["order"] == ("yx" if y_first else "xy")
    assert record["boxes"]["unit"] == ("share" if shares else "pixel")
    assert ("y first" in record["read_as"]) == y_first


def test_a_detector_that_finds_nothing_in_mirrored_pictures_tells_no_order() -> None:
    class Onesided(Blobs):
        def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
            found = super().run(feeds)
            if feeds["image"][0, 0, :30].sum() and feeds["image"][0, 0, 30:36, 5:20].sum():
                found["scores"][:] = 0
            return found

    blobs: Any = Onesided(y_first=False, shares=False, channels_last=False)
    meaning = meaning_on(blobs, blobs, blobs)
    assert meaning is not None
    assert meaning.result().as_record()["boxes"]["order"] is None


class Cells(Blobs):
    """Detects on two grids: cells within a rectangle give the distances to its sides, each grid for its own class."""

    def __init__(self, *, origin: float, bins: int) -> None:
        super().__init__(y_first=False, shares=False, channels_last=False)
        self.origin, self.bins = origin, bins

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        corners = super().run(feeds)["boxes"][0]
        outputs: Arrays = {}
        for stride, kind in ((4, 2), (8, 1)):
            lines, columns = np.indices((40 // stride, 80 // stride)).reshape(2, -1) + self.origin
            left, top, right, bottom = corners[kind] / stride
            distances = np.stack([columns - left, lines - top, right - columns, bottom - lines], axis=1)
            is_inside = (distances >= 0).all(axis=1)
            assert is_inside.any()
            distances[~is_inside] = 0.5
            outputs[f"scores{stride}"] = np.where(is_inside, 0.9, 0.01).astype(np.float32)[np.newaxis, :, np.newaxis]
            outputs[f"boxes{stride}"] = self.told(distances)[np.newaxis].astype(np.float32)
        return outputs

    def told(self, distances: np.ndarray) -> np.ndarray:
        """Returns the distances, or for each distance the logarithms of the shares of the two nearest integers."""
        if self.bins == 1:
            return distances
        shares = np.maximum(1 - np.abs(distances[:, :, np.newaxis] - np.arange(self.bins)), 1e-9)
        return np.log(shares).reshape(len(distances), -1)


@pytest.mark.parametrize("origin", [0.0, 0.5])
@pytest.mark.parametrize("bins", [1, 8])
def test_mirrored_pictures_tell_where_distances_begin(origin: float, bins: int) -> None:
    cells: Any = Cells(origin=origin, bins=bins)
    meaning = meaning_on(cells, cells, cells)
    assert isinstance(meaning, BoxMeaning)
    record = meaning.result().as_record()["boxes"]
    assert (record["offsets"], record["origin"]) == ("distances", origin)
    assert [(grid["stride"], grid["bins"]) for grid in record["grids"]] == [(4, bins), (8, bins)]
    found = meaning.detector.read(cells.run(next(iter(cells)).feeds))
    np.testing.assert_allclose(sorted(found.corners.tolist()), [[4, 3, 24, 13], [60, 30, 75, 36]], atol=1e-4)


def test_pictures_in_which_nothing_is_found_are_not_mirrored() -> None:
    class Counted(Blobs):
        runs = 0

        def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
            self.runs += 1
            found = super().run(feeds)
            if feeds["image"][0, 0, 3, 4] != 1:  # all but the first
                found["scores"][:] = 0
            return found

    blobs: Any = Counted(y_first=False, shares=False, channels_last=False)
    assert meaning_on(blobs, blobs, blobs) is not None
    assert blobs.runs == 3 + 1
