"""Stored weights rounded adaptively in models that are changed by nothing but storing weights."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit_quantize.calibration.moments import Moments
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.placement import place
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.rounding import adaptive, held_out
from edgekit_quantize.rounding.adaptive import adaptively_rounded
from edgekit_quantize.rounding.adaround import adaptive_rounding
from edgekit_quantize.rounding.held_out import Parts, Seconds
from edgekit_quantize.settings import Settings

INPUTS, OUTPUTS = 48, 40
TWO_LAYERS = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 16, 6, {INPUTS}] x) => (float[1, 16, 6, {OUTPUTS}] y, float[1, 16, 6, {INPUTS}] z) {{
  y = MatMul(x, w)
  z = Conv<pads = [1, 1, 1, 1]>(x, k)
}}"""


class AlikeSamples:
    """Inputs near a plane of few dimensions: their errors go along with each other."""

    has_labels = False

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(7)
        few = rng.normal(size=(6, INPUTS))
        for number in range(len(self)):
            x = rng.normal(size=(1, 16, 6, 6)) @ few + 0.1 * rng.normal(size=(1, 16, 6, INPUTS))
            yield Sample(str(number), {"x": x.astype(np.float32)})


def _model(rng: np.random.Generator) -> Model:
    proto = onnx.parser.parse_model(TWO_LAYERS)
    arrays = {"w": rng.normal(size=(INPUTS, OUTPUTS)), "k": rng.normal(size=(16, 16, 3, 3))}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    return Model(ir.from_proto(proto))


def test_stored_weights_are_rounded_adaptively_where_that_is_better(rng: np.random.Generator) -> None:
    request = QuantizationRequest(_model(rng), "int8-weights", AlikeSamples(), max_drop=1.0)

    record = PostTrainingQuantizer().quantize(request).record

    nearest, adaptive = record["curve"]
    assert record["chosen"] == adaptive["candidate"] == f"{nearest['candidate']}, weights rounded adaptively"
    assert adaptive["sqnr_db"] > nearest["sqnr_db"] + 1
    assert adaptive["weight_bytes"] == nearest["weight_bytes"]
    hows = {layer["kind"]: layer["how"] for layer in record["layers"]}
    to_nearest = "int8, a scale a channel"  # what enters the Conv is independent noise in all of its inputs but few
    assert hows == {"MatMul": f"{to_nearest}; rounded adaptively", "Conv": to_nearest}


def test_a_choice_of_the_nearest_integers_is_kept(rng: np.random.Generator) -> None:
    request = QuantizationRequest(_model(rng), "int8-weights", AlikeSamples(), max_drop=1.0, choice="weights")

    record = PostTrainingQuantizer().quantize(request).record

    assert record["chosen"] == "weights"


def _rounded(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], list[tuple[int, int]], int]:
    """Returns what is chosen for both layers, what was reported meanwhile, and how often the samples were read."""
    model = _model(rng)
    calibrated = Settings(layers={"Conv": "weights", "MatMul": "weights"})
    told: list[tuple[int, int]] = []
    walks = itertools.count()

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        next(walks)
        return (dict(sample.feeds) for sample in AlikeSamples())

    graph_model = model.graph_model
    plan = place(graph_model.graph, calibrated)
    chosen = adaptively_rounded(graph_model, plan, {}, feeds, lambda done, total: told.append((done, total)))
    return chosen.integers, told, next(walks)


def test_layers_whose_moments_do_not_fit_together_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    together, told, walks = _rounded(np.random.default_rng(1))
    assert (walks, told) == (1, [(1, 2), (2, 2)])

    monkeypatch.setattr(adaptive, "WATCHED_BYTES", 1)
    apart, told, walks = _rounded(np.random.default_rng(1))

    assert (walks, told) == (2, [(1, 2), (2, 2)])
    assert together.keys() == apart.keys()
    for name, integers in together.items():
        np.testing.assert_array_equal(apart[name], integers)


def test_another_plan_takes_the_moments_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(np.random.default_rng(1)).graph_model
    plan = place(model.graph, Settings(layers={"Conv": "weights", "MatMul": "weights"}))
    walks = itertools.count()

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        next(walks)
        return (dict(sample.feeds) for sample in AlikeSamples())

    known: dict[Hashable, Seconds] = {}
    first = adaptively_rounded(model, plan, {}, feeds, known=known).integers
    second = adaptively_rounded(model, plan, {}, feeds, known=known).integers

    assert (len(known), next(walks)) == (2, 1)
    assert first.keys() == second.keys()
    for name, integers in first.items():
        np.testing.assert_array_equal(second[name], integers)

    monkeypatch.setattr(adaptive, "WATCHED_BYTES", 2 * INPUTS * INPUTS * 8)
    few: dict[Hashable, Seconds] = {}
    adaptively_rounded(model, plan, {}, feeds, known=few)
    assert [seconds.fitted.shape for seconds in few.values()] == [(INPUTS, INPUTS)]


def test_moments_of_a_layer_are_given_up_once_it_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    living: weakref.WeakSet[Moments] = weakref.WeakSet()
    held: list[int] = []

    class Watched(Moments):
        """Moments that the test knows of as long as somebody holds them."""

        def __init__(self, size: int) -> None:
            super().__init__(size)
            living.add(self)

    def rounding(*arguments: Any) -> np.ndarray:
        held.append(len(living))
        return adaptive_rounding(*arguments)

    monkeypatch.setattr(held_out, "Moments", Watched)
    monkeypatch.setattr(held_out, "adaptive_rounding", rounding)
    _rounded(np.random.default_rng(1))

    assert held == [4, 4, 2]  # two parts of the samples for each layer; only one layer gains


def test_blocks_small_weights_and_bodies_of_scans_keep_the_nearest_integers() -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, {INPUTS}] x) => (float[1, 16, {OUTPUTS}] y, float[1, 16, 10] few, float[16, {OUTPUTS}] z) {{
          y = MatMul (x, w)
          few = MatMul (x, small)
          s = Squeeze (x, first)
          z = Scan <num_scan_inputs = 1, body = b (float[{INPUTS}] row) => (float[{OUTPUTS}] made) {{
            made = MatMul (row, v)
          }}> (s)
        }}""")
    arrays = {name: np.random.default_rng(2).normal(size=(INPUTS, OUTPUTS)).astype(np.float32) for name in "wv"}
    arrays |= {"small": arrays["w"][:, :10], "first": np.array([0])}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    model = ir.from_proto(proto)
    feeds = [{"x": np.random.default_rng(3).normal(size=(1, 16, INPUTS)).astype(np.float32)} for _ in range(8)]

    def rounded(settings: Settings) -> set[str]:
        plan = place(model.graph, settings)
        assert len(plan.stored) == 3
        return set(adaptively_rounded(model, plan, {}, lambda: feeds).integers)

    by_channel = Settings(layers={"MatMul": "weights"})
    assert rounded(by_channel) == {"y, stored"}
    assert rounded(replace(by_channel, block=16)) == set()


def test_a_layer_that_reads_the_tensor_itself_is_rounded_for_that_and_not_for_what_another_one_divides(
    rng: np.random.Generator,
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[64, 24] x) => (float[64, 24] y, float[64, 24] z) {
      y = MatMul(x, w)
      z = Gemm(x, v)
    }"""
    proto = onnx.parser.parse_model(text)
    weights = {name: rng.normal(size=(24, 24)).astype(np.float32) for name in "wv"}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    model = ir.from_proto(proto)
    rows = (rng.normal(size=(64, 4)) @ rng.normal(size=(4, 24))).astype(np.float32)
    factors = np.geomspace(0.01, 100, 24, dtype=np.float32)
    divided = {"x": Smoothing(factors, -1)}
    tensors = calibrate(model, {"x": [-1]}, [({"x": rows}, None)], 1, smoothing=divided).tensors
    plan = place(model.graph, Settings(layers={"MatMul": "input", "Gemm": "weights"}, sums_in_int16=False))

    walks = itertools.count()

    def feeds() -> list[dict[str, np.ndarray]]:
        next(walks)
        return [{"x": rows}]

    known: dict[Hashable, Seconds] = {}
    found = adaptively_rounded(model, plan, tensors, feeds, known=known, parts=Parts(samples=1)).integers
    assert (len(known), next(walks)) == (1, 1)  # of the tensor itself: what is divided has the same, over the factors

    (quantized,), (stored,) = plan.layers, plan.stored
    expected = {
        quantized.name: (weights["w"] * factors[:, None], rows / factors),
        f"{stored.name}, stored": (weights["v"], rows),
    }
    assert found.keys() == expected.keys()
    for name, (matrix, entering) in expected.items():
        params = symmetric_weights(matrix, TYPES["int8"], 1)
        right = adaptive_rounding(matrix.T, params, entering.T @ entering / 64).T
        assert np.mean(found[name] != right) < 0.02  # moments are added up in float32


def test_moments_of_patches_are_divided_channel_by_channel(rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4, 9, 9] x) => (float[1, 8, 7, 7] y) {
      y = Conv(x, w)
    }"""
    proto = onnx.parser.parse_model(text)
    weights = rng.normal(size=(8, 4, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    model = ir.from_proto(proto)
    pictures = [rng.normal(size=(1, 4, 9, 9)).cumsum(-1).astype(np.float32) for _ in range(4)]
    factors = np.array([0.125, 1, 4, 32], np.float32)
    calibration = [({"x": each}, None) for each in pictures]
    tensors = calibrate(model, {"x": [1]}, calibration, 4, smoothing={"x": Smoothing(factors, 1)}).tensors
    plan = place(model.graph, Settings(layers={"Conv": "input"}, sums_in_int16=False))

    (found,) = adaptively_rounded(model, plan, tensors, lambda: [{"x": each} for each in pictures]).integers.values()

    divided = [each / factors.reshape(1, 4, 1, 1) for each in pictures]
    rows = np.array([each[0, :, y : y + 3, x : x + 3].ravel() for each in divided for y in range(7) for x in range(7)])
    matrix = (weights * factors.reshape(1, 4, 1, 1)).reshape(8, 36)
    right = adaptive_rounding(matrix, symmetric_weights(matrix, TYPES["int8"], 0), rows.T @ rows / len(rows))
    assert np.mean(found.reshape(8, 36) != right) < 0.02
