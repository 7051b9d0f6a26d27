"""Metrics of the quantizers' benchmarks, against numbers worked out by hand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("scores")
    sys.modules.pop("scores")
    return module


def _answers(*arrays: Sequence[object]) -> list[dict[str, np.ndarray]]:
    return [{"y": np.array(array, np.float64)} for array in arrays]


def test_shares(scores: ModuleType) -> None:
    exact, found = _answers([[0, 1], [1, 0]], [[0, 1], [0, 1]]), _answers([[0, 1], [0, 1]], [[0, 1], [0, 1]])

    assert scores.METRICS["decisions"](found, exact, []) == 0.75
    assert scores.METRICS["labels"](_answers([3, 1], [0, 2]), [], [0, 0]) == 0.5


def test_errors(scores: ModuleType) -> None:
    exact, found = _answers([1, 2], [3, 2]), _answers([1, 2], [3, 3])

    # the output's mean is 2 and 2: its variance is 1 + 1, the error's power 1
    assert scores.METRICS["explained"](found, exact, []) == 0.5
    assert scores.METRICS["decibels"](found, exact, []) == pytest.approx(10 * np.log10(2))
    assert scores.METRICS["decibels"](exact, exact, []) == np.inf
    assert scores.METRICS["correlation"](_answers([2, 4], [6, 4]), exact, []) == pytest.approx(1)


def test_ranks_of_cosines(scores: ModuleType) -> None:
    exact = _answers([1, 0], [1, 0.1], [0, 1], [-1, 0])

    assert scores.METRICS["ranks"](_answers([5, 0], [2, 0.2], [0, 9], [-3, 0]), exact, []) == pytest.approx(1)
    assert scores.METRICS["ranks"](exact[::-1], exact, []) < 0.9


def test_texts(scores: ModuleType) -> None:
    def steps(*classes: int) -> dict[str, np.ndarray]:
        return {"y": np.eye(5)[list(classes)][None]}

    assert scores.decoded(steps(0, 1, 1, 0, 1, 2, 2, 0)["y"]) == [1, 1, 2]
    # "1 2 3" for "1 2 4 3", and the same text twice
    pairs = [steps(1, 2, 3, 3, 0), steps(1, 2, 0, 0, 0)], [steps(1, 2, 4, 3, 0), steps(1, 2, 2, 2, 0)]
    assert scores.METRICS["characters"](*pairs, []) == pytest.approx(1 - 1 / 6)
    assert scores.edit_distance([1, 2, 3], [2, 3, 4, 5]) == 3


def test_boxes(scores: ModuleType) -> None:
    # rows of a detector: centre, size, and a class's score, in 640 by 640
    def detector(*boxes: tuple[float, ...]) -> dict[str, np.ndarray]:
        table = np.zeros((1, 6, 8400), np.float32)
        table[0, :2], table[0, 2:4] = 300.0, 5.0
        table[0, :, : len(boxes)] = np.array(boxes, np.float32).T
        return {"y": table}

    exact = [detector((100, 100, 40, 40, 0.9, 0.0), (300, 300, 80, 80, 0.0, 0.8)) for _ in range(3)]
    moved = [detector((100, 100, 40, 40, 0.9, 0.0), (300, 300, 80, 50, 0.0, 0.8)) for _ in range(3)]

    assert scores.METRICS["boxes at 0.75"](exact, exact, []) == 1.0
    assert scores.METRICS["boxes at 0.5"](moved, exact, []) == 1.0  # 50 of 80 are 0.625
    assert scores.METRICS["boxes at 0.75"](moved, exact, []) == 0.5
