"""Maps of which the graph leaves the peaks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.peaks import PeakMap, PeakMeaning, peaks_among
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

POOL = "MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]>"
KEPT = f"s = Sigmoid (x) m = {POOL} (s) k = Equal (s, m)"


def recognised(onnx_model: OnnxModel, body: str, shape: str = "1, 2, 4, 5", most: float = 0.9) -> PeakMap | None:
    constants = {"zero": np.float32(0), "last": np.array([1, 4, 5, 1])}
    graph = f"g (float[{shape}] x) => (float[N, A, B, C] y) {{ {body} }}"
    used = {name: each for name, each in constants.items() if f"{name})" in graph}
    model = infer_shapes(Model(ir.from_proto(onnx_model(graph, **used))), strict=False)
    sizes = tuple(int(size) for size in shape.split(","))
    answer = np.full(sizes[:1] + sizes[2:] + sizes[1:2] if "last" in used or "perm" in body else sizes, most, "f")
    found = peaks_among([{"y": answer}], model.graph)
    return None if found is None else found._maps[0]


@pytest.mark.parametrize(
    ("body", "shape", "classes", "reach"),
    [
        (f"{KEPT} c = Cast <to = 1> (k) y = Mul (s, c)", "1, 2, 4, 5", 1, 1),
        (f"{KEPT} c = Cast <to = 1> (k) y = Mul (c, m)", "1, 2, 4, 5", 1, 1),
        (f"{KEPT} y = Where (k, s, zero)", "1, 2, 4, 5", 1, 1),
        (f"s = Sigmoid (x) m = {POOL} (s) k = GreaterOrEqual (s, m) y = Where (k, s, zero)", "1, 2, 4, 5", 1, 1),
        (
            f"{KEPT} c = Cast <to = 1> (k) p = Mul (s, c) y = Transpose <perm = [0, 2, 3, 1]> (p)",
            "1, 2, 4, 5",
            3,
            1,
        ),
        (  # as tf2onnx writes M-LSD
            f"s = Sigmoid (x) m = {POOL} (s) a = Reshape (s, last) b = Reshape (m, last) k = Equal (a, b) "
            "c = Cast <to = 1> (k) y = Mul (a, c)",
            "1, 1, 4, 5",
            3,
            1,
        ),
        (
            KEPT.replace("3, 3", "5, 5").replace("1, 1, 1, 1", "2, 2, 2, 2") + " y = Where (k, s, zero)",
            "1, 2, 4, 5",
            1,
            2,
        ),
    ],
)
def test_what_a_pool_leaves_is_a_map_of_peaks(
    onnx_model: OnnxModel, body: str, shape: str, classes: int, reach: int
) -> None:
    assert recognised(onnx_model, body, shape) == PeakMap("y", classes, reach)


@pytest.mark.parametrize(
    "body",
    [
        "y = Sigmoid (x)",
        f"s = Sigmoid (x) m = {POOL} (x) k = Equal (s, m) y = Where (k, s, zero)",  # the pool of something else
        f"{KEPT} y = Where (k, x, zero)",  # other numbers where the peaks are
        KEPT.replace("kernel", "strides = [1, 2], kernel") + " y = Where (k, s, zero)",
    ],
)
def test_other_maps_have_no_peaks(onnx_model: OnnxModel, body: str) -> None:
    assert recognised(onnx_model, body) is None


@pytest.mark.parametrize("most", [0.1, 1.5])
def test_scores_lie_between_0_and_1_and_find_something(onnx_model: OnnxModel, most: float) -> None:
    assert recognised(onnx_model, f"{KEPT} y = Where (k, s, zero)", most=most) is None


def scores(*peaks: tuple[int, int, int, float]) -> dict[str, np.ndarray]:
    found = np.zeros((1, 2, 8, 8), np.float32)
    for number, row, column, score in peaks:
        found[0, number, row, column] = score
    return {"y": found}


@pytest.mark.parametrize(
    ("built", "wrong"),
    [
        (scores((0, 3, 3, 0.9)), 0),
        (scores((0, 4, 2, 0.5)), 0),  # moved by a place along both axes
        (scores((0, 3, 3, 0.13)), 0),  # found by half of the score, and counts for one model only
        (scores((0, 3, 3, 0.12)), 1),
        (scores((0, 3, 5, 0.9)), 2),  # two places apart
        (scores((1, 3, 3, 0.9)), 2),  # of another class
        (scores((0, 3, 3, 0.9), (0, 7, 7, 0.3)), 1),
        (scores((0, 3, 3, np.nan)), 1),
    ],
)
def test_a_peak_is_found_by_both_models_if_it_is_within_reach(built: dict[str, np.ndarray], wrong: int) -> None:
    meaning = PeakMeaning([PeakMap("y", 1, 1)])
    meaning.add(scores((0, 3, 3, 0.8)), built)
    found = meaning.result()
    count = 1 + int(np.count_nonzero(built["y"] >= 0.25))
    assert (found.kind, found.of_original, found.count, found.wrong) == ("peaks", 1, count, wrong)


def test_few_peaks_prove_little_and_more_of_them_judge() -> None:
    meaning = PeakMeaning([PeakMap("y", 1, 1)])
    for row in range(8):
        meaning.add(scores((0, row, 3, 0.8)), scores((0, row, 3, 0.8)))
    few = meaning.result()
    assert not few.proves
    assert few.too_few == (
        "8 peaks are found on the samples, fewer than the 10 that a judgement needs: peaks are judged as numbers; give "
        "samples that show more"
    )
    fresh = meaning.anew()
    for _ in range(10):
        fresh.add(scores((0, 3, 3, 0.8)), scores())
    assert fresh.result().shortfall(0.95) == "10 of 10 peaks differ (the budget 5 % allows 0)"
