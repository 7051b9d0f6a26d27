"""What people are told about calibration data that are not as they should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RunEdgeKit = Callable[..., Any]
Draw = Callable[[int], dict[str, np.ndarray]]

GRAPH = """g (float[1, 3, 8, 8] x) => (float[1, 5] y) {
    c = Conv (x, w)
    p = GlobalAveragePool (c)
    f = Flatten (p)
    s = MatMul (f, v)
    y = Softmax (s)
}"""


def _drawn(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(1, 3, 8, 8)).astype(np.float32)


def _one_nan(number: int) -> dict[str, np.ndarray]:
    array = _drawn(number)
    if number == 5:
        array[0, 0, 0, 0] = np.nan
    return {"x": array}


@pytest.fixture
def quantize(edgekit: RunEdgeKit, onnx_file: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Quantizes a small model with samples that a function draws by their number."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(8, 3, 3, 3)), "v": rng.normal(size=(8, 5)), "u": rng.normal(size=(16, 8, 3, 3))}
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}

    def run(draw: Draw, count: int = 12, max_drop: str = "60%", target: str | None = None, graph: str = GRAPH) -> Any:
        model = onnx_file(graph, **{name: array for name, array in arrays.items() if f", {name})" in graph})
        folder = tmp_path / "data"
        folder.mkdir()
        for number in range(count):
            np.savez(folder / f"{number:02}.npz", **draw(number))
        options = ["--scheme", "int8", "--max-drop", max_drop, "-o", tmp_path / "int8.onnx", "--quiet"]
        options += [] if target is None else ["--target", target]
        return edgekit("quantize", model, "--data", folder, *options)

    return run


@pytest.mark.parametrize(
    ("draw", "subject", "message"),
    [
        (lambda i: {"image": _drawn(i)}, "00.npz", "the sample's arrays are not named as the model's inputs"),
        (lambda i: {"x": _drawn(i)[0]}, "00.npz", "the sample's shape is not the model's"),
        (lambda i: {"x": _drawn(i).astype(np.float64)}, "00.npz", "the sample's element type is not the model's"),
        (_one_nan, "05.npz", "the sample holds NaN"),
    ],
    ids=["names", "shape", "dtype", "NaN"],
)
def test_data_that_do_not_fit_are_refused_with_a_hint(
    quantize: Callable[..., Any], tmp_path: Path, draw: Draw, subject: str, message: str
) -> None:
    finished = quantize(draw)
    assert finished.code == 2
    first, *_, last = finished.err.splitlines()
    assert first == f"error: {tmp_path / 'data' / subject}: {message}"
    assert last.startswith("hint: ")
    assert not (tmp_path / "int8.onnx").exists()


@pytest.mark.parametrize(
    ("draw", "count", "message"),
    [
        (lambda i: {"x": np.ones((1, 3, 8, 8), np.float32)}, 12, "the input 'x' is the same in all 12 samples"),
        (lambda i: {"x": _drawn(i)}, 7, "7 calibration samples: ranges from fewer than 8 are guesses"),
        (
            lambda i: {"x": _drawn(i), "label": np.array(i % 5)},
            12,
            "of 12 labels among 5 classes, no more than a guess",
        ),
    ],
    ids=["constant", "few", "labels"],
)
def test_data_that_tell_little_are_warned_of(
    quantize: Callable[..., Any], draw: Draw, count: int, message: str
) -> None:
    finished = quantize(draw, count)
    assert finished.code == 0
    (warning,) = finished.err.splitlines()
    assert warning.startswith("warning: ")
    assert message in warning
    assert "give " in warning


def test_data_that_are_right_need_no_words(quantize: Callable[..., Any]) -> None:
    finished = quantize(lambda i: {"x": _drawn(i)}, 8)
    assert (finished.code, finished.err) == (0, "")


@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_what_is_odd_about_data_is_told_where_no_candidate_holds_the_budget(
    quantize: Callable[..., Any], target: str | None
) -> None:
    signal = "g (float[1, 3, 8, 8] x) => (float[1, 16, 4, 4] y) { c = Conv (x, w) y = Conv (c, u) }"
    finished = quantize(lambda i: {"x": _drawn(i)}, 7, "0%", target, signal)
    first, *others = finished.err.splitlines()
    assert finished.code == 1
    assert first.startswith("warning: 7 calibration samples: ranges from fewer than 8 are guesses")
    assert "error: no candidate holds the accuracy budget" in others
