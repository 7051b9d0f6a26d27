"""Adaptively rounded weights that candidates of a profile share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.statistics import TensorStatistics, calibrate
from edgekit_quantize.placement import place
from edgekit_quantize.rounding.shared import SharedRounding
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

SIZE = 48
MODEL = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[8, {SIZE}] x) => (float[8, {SIZE}] y) {{
  [first] a = MatMul(x, w)
  [second] y = MatMul(a, v)
}}"""
SETTINGS = Settings(layers={"MatMul": "input"})

Parse = Callable[..., ir.Model]


def samples() -> list[dict[str, np.ndarray]]:
    """Inputs near a plane of few dimensions: their errors go along with each other."""
    draw = np.random.default_rng(3)
    few = draw.normal(size=(5, SIZE))
    noise = 0.1 * draw.normal(size=(24, 8, SIZE))
    return [{"x": each.astype(np.float32)} for each in draw.normal(size=(24, 8, 5)) @ few + noise]


def made(parse: Parse, rng: np.random.Generator) -> tuple[ir.Model, dict[str, TensorStatistics]]:
    arrays = {name: rng.normal(size=(SIZE, SIZE)).astype(np.float32) for name in "wv"}
    model = parse(MODEL, **arrays)
    observed = dict.fromkeys(place(model.graph, SETTINGS).observed(), ())
    return model, calibrate(model, observed, ((feeds, None) for feeds in samples()), 24).tensors


def test_a_layer_in_float_stores_weights_that_are_rounded_adaptively(parse: Parse, rng: np.random.Generator) -> None:
    model, tensors = made(parse, rng)
    rounding = SharedRounding(model, tensors, samples, lambda done, total: None)

    chosen = rounding.layers(SETTINGS, ["first"])
    written = write(model, SETTINGS, tensors, ["first"], chosen)

    assert chosen.keys() == {"first", "second", "first, stored"}
    assert {*written.rounded_adaptively} == {"second", "first, stored"}
    (stored,) = (
        value.const_value.numpy()
        for name, value in written.model.graph.initializers.items()
        if name.startswith("w_int8") and value.const_value is not None
    )
    (scale,) = (
        value.const_value.numpy()
        for name, value in written.model.graph.initializers.items()
        if name.startswith("w_scale") and value.const_value is not None
    )
    w = model.graph.initializers["w"].const_value
    assert w is not None
    x = np.concatenate([feeds["x"] for feeds in samples()])
    nearest = np.clip(np.rint(w.numpy() / scale), -128, 127)
    adaptive, rounded = (np.sum((x @ (integers * scale - w.numpy())) ** 2) for integers in (stored, nearest))
    assert adaptive < 0.7 * rounded


def test_a_layer_is_rounded_once_whichever_others_are_in_float(parse: Parse, rng: np.random.Generator) -> None:
    model, tensors = made(parse, rng)
    rounded: list[int] = []
    walks: list[int] = []

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        walks.append(1)
        yield from samples()

    rounding = SharedRounding(model, tensors, feeds, lambda done, total: rounded.append(done))
    for keep_float in ([], ["first"], ["first", "second"], ["first"]):
        rounding.layers(SETTINGS, keep_float)

    assert len(rounded) == 4  # each layer's weights as they are multiplied, and as they are stored
    assert len(walks) == 1  # what is measured of the samples serves both


def test_settings_that_are_gone_are_not_taken_for_others(parse: Parse, rng: np.random.Generator) -> None:
    """Python may give the identity of a deleted object to a new object."""
    model, tensors = made(parse, rng)
    rounding = SharedRounding(model, tensors, samples, lambda done, total: None)
    for mode, names in (("input", {"first", "second"}), ("weights", {"first, stored", "second, stored"})) * 2:
        assert rounding.layers(Settings(layers={"MatMul": mode})).keys() == names
