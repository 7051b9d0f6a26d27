"""Channels that may be logits of classes without names: which of them are surely lost."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.decisions.sure_classes import SureClassCount
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.metrics import Comparison
from edgekit.model import Model

CHANNELS = Decision(axis=1, are_channels=True)
ORGAN = (slice(None), slice(4, 7), slice(4, 7), slice(4, 7))
"""27 of 32,768 voxels of a volume."""
OnnxModel = Callable[..., onnx.ModelProto]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def compared(reference: np.ndarray, built: np.ndarray) -> Accuracy:
    comparison = Comparison(("seg",), {"seg": CHANNELS})
    comparison.add({"seg": reference}, {"seg": built})
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    return Accuracy(
        executed_by="x", reference="y", seeded=False, samples=1, floors=floors, outputs=comparison.results(), task=None
    )


def logits(rng: np.random.Generator) -> np.ndarray:
    """Of the background, a large organ in half of the volume, and a small one."""
    volume = rng.normal(0, 0.3, (1, 3, 32, 32, 32)).astype(np.float32)
    volume[:, 0, :, :, :16] += 8
    volume[:, 1, :, :, 16:] += 8
    volume[:, 2] -= 4
    volume[:, 2][ORGAN] = 12
    return volume


def test_a_small_organ_that_is_lost_is_told_though_the_signal_passes(rng: np.random.Generator) -> None:
    reference = logits(rng)
    built = reference + rng.normal(0, 0.1, reference.shape).astype(np.float32)
    kept = compared(reference, built)
    assert kept.outputs[0].worst_class is not None
    assert kept.outputs[0].worst_class.overlap == 1
    assert remarks_on(kept) == []
    built[:, 2][ORGAN] = 0
    lost = compared(reference, built)
    assert (lost.outputs[0].sqnr_db or 0) > 25
    assert lost.outputs[0].agreement is None
    assert remarks_on(lost) == [
        "output 'seg': class 2 is kept at 0 of its 27 places (overlap 0.00, at least 0.5): if these are scores of "
        "classes, that class is lost; --labels FILE, with the names of the classes, judges them as such"
    ]


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_colours_that_change_places_are_no_classes(rng: np.random.Generator, scale: float) -> None:
    """A grey picture: which colour is the largest is noise, from 0 to 1 as from 0 to 255."""
    grey = rng.uniform(0.2, 0.8, (1, 1, 64, 64))
    picture = scale * (grey + rng.normal(0, 0.01, (1, 3, 64, 64)))
    assert remarks_on(compared(picture, picture + scale * rng.normal(0, 0.03, picture.shape))) == []


def test_what_is_undecided_or_no_number_does_not_count(rng: np.random.Generator) -> None:
    ahead = np.zeros((1, 64, 2), np.float32)
    ahead[:, :32, 1] = 1.09  # ln 3 is 1.0986
    count = SureClassCount()
    count.add(ahead, ahead)
    count.add(np.full((1, 64, 2), np.nan), ahead)
    count.add(np.ones((1, 64, 2), np.int64), ahead)
    assert count.worst() is None
    ahead[:, :32, 1] = 1.11
    count.add(ahead, ahead)
    worst = count.worst()
    assert worst is not None
    assert (worst.number, worst.places, worst.kept) == (1, 32, 32)


WEIGHTS = {
    "k": np.ones((4, 3, 1, 1), np.float32),
    "one": np.ones((1, 4, 1, 1), np.float32),
    "volume": np.ones((2, 1, 1, 1, 1), np.float32),
}


@pytest.mark.parametrize(
    ("graph", "axis"),
    [
        ("g (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] y) { y = Conv (x, k) }", 1),
        ("g (float[1, 1, 4, 4, 4] x) => (float[1, 2, 4, 4, 4] y) { y = Conv (x, volume) }", 1),
        (
            "g (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] y) "
            "{ h = Conv (x, k) y = Transpose <perm = [0, 2, 3, 1]> (h) }",
            3,
        ),
        (  # Softplus as PyTorch's exporter writes it
            "g (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] y) <float t = {20}> "
            "{ h = Conv (x, k) s = Softplus (h) far = Greater (h, t) y = Where (far, h, s) }",
            1,
        ),
    ],
)
def test_channels_of_a_convolution_without_names(onnx_model: OnnxModel, graph: str, axis: int) -> None:
    used = {name: array for name, array in WEIGHTS.items() if f", {name})" in graph}
    assert decisions_of(Model(ir.from_proto(onnx_model(graph, **used)))) == {"y": replace(CHANNELS, axis=axis)}


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] h, float[1, 1, 4, 4] y) { h = Conv (x, k) y = Conv (h, one) }",
        "g (float[1, 4, 4, 4] h) => (float[1, 4, 4, 4] y) { t = Conv (h, one) y = Mul (t, h) }",
    ],
)
def test_features_and_signals_hold_no_classes(onnx_model: OnnxModel, graph: str) -> None:
    used = {name: array for name, array in WEIGHTS.items() if f", {name})" in graph}
    first = decisions_of(Model(ir.from_proto(onnx_model(graph, **used))))
    assert first[next(iter(first))] is None
