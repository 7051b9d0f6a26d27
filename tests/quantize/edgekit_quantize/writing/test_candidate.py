from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.activations import FEW
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import TensorStatistics, calibrate
from edgekit_quantize.graph.layers import layers
from edgekit_quantize.prepare import prepared
from edgekit_quantize.rounding.shared import SharedRounding
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 40] x) => (float[1, 30] y, float[1, 30] z) { y = MatMul(x, v)  z = Gemm(x, w, b) }"""
SETTINGS = Settings.read({"layers": {"MatMul": "input", "Gemm": "weights"}})


def test_the_mean_error_of_stored_weights_is_taken_off_where_another_layer_has_its_input_divided(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    weights = {name: rng.normal(size=(40, 30)).astype(np.float32) for name in "vw"}
    model = parse(TEXT, **weights, b=np.zeros(30, np.float32))
    data = {"x": rng.uniform(1, 3, (1, 40)).astype(np.float32)}  # with one sample there is nothing but the mean
    smoothing = {"x": Smoothing(np.geomspace(0.1, 10, 40).astype(np.float32), -1)}
    tensors = calibrate(model, {"x": [-1]}, [(data, None)], 1, None, smoothing).tensors

    written = write(model, SETTINGS, tensors)

    assert (len(written.quantized), len(written.stored)) == (1, 1)
    exact, found = execute(model, data)[1], execute(written.model, data)[1]
    np.testing.assert_allclose(found, exact, atol=1e-4)
    uncorrected = execute(write(model, SETTINGS, {**tensors, "x": _without_channels(tensors["x"])}).model, data)[1]
    assert np.abs(uncorrected - exact).max() > 0.02


def _without_channels(statistics: TensorStatistics) -> TensorStatistics:
    return replace(statistics, channels={})


STEPS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 40] x) => (float[1, 40] z) { y = MatMul(x, v)  t = Mul(y, far)  z = MatMul(t, v) }"""
"""Two steps of an unrolled recurrence, the second of which reads much larger numbers."""


def test_weights_that_several_layers_read_are_written_once_with_the_scales_that_the_most_demanding_needs(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    model = parse(STEPS, v=rng.uniform(0.5, 1, (40, 40)).astype(np.float32), far=np.array(1.0, np.float32))
    # of the first layer's inputs one is as large as its integers reach, of the second's nearly all are
    data = {"x": rng.uniform(0.4, 0.5, (1, 40)).astype(np.float32)}
    data["x"][0, 0] = 1.0
    tensors = calibrate(model, {"x": [-1], "t": [-1]}, [(data, None)] * FEW, FEW).tensors
    settings = Settings.read({"layers": {"MatMul": "input"}, "sums_in_int16": True})

    written = write(model, settings, tensors)

    assert written.restricted == dict.fromkeys((layer.name for layer in layers(model.graph)), 40)
    (integers,) = (
        value.const_value.numpy().astype(int)
        for value in written.model.graph.initializers.values()
        if value.const_value is not None and value.shape == (40, 40)
    )
    neighbours = integers[0::2] + integers[1::2]
    assert neighbours.max() * 255 <= 2**15 - 1  # neighbours as the second layer reads them
    exact, found = execute(model, data)[0], execute(written.model, data)[0]
    np.testing.assert_allclose(found, exact, rtol=0.02)


HALF = """<ir_version: 8, opset_import: ["" : 17]>
g (float16[1, 40] x) => (float16[1, 30] y) { y = MatMul(x, v) }"""


@pytest.mark.parametrize("form", ["dequantize", "cast"])
def test_stored_weights_of_a_model_in_half_precision_are_half_precision_to_their_reader(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, form: str
) -> None:
    weights = rng.normal(size=(40, 30)).astype(np.float16)
    model = parse(HALF, v=weights)
    data = {"x": rng.normal(size=(1, 40)).astype(np.float16)}

    written = write(model, Settings.read({"layers": {"MatMul": "weights"}, "weights_form": form}), {})

    assert written.stored == [layer.name for layer in layers(model.graph)]
    (found,) = execute(written.model, data)
    assert found.dtype == np.float16
    exact = data["x"].astype(np.float64) @ weights.astype(np.float64)
    step = np.abs(weights).max(axis=0) / 127
    np.testing.assert_allclose(found, exact, atol=float(np.abs(data["x"]).sum() * step.max()))


SHARED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 40] a, float[1, 40] c) => (float[1, 30] y, float[1, 30] z) { y = Gemm(a, w, b)  z = Gemm(c, w, b) }"""


def test_stored_weights_that_several_layers_read_are_not_rounded_for_one_of_them(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """The mean error of the integers that are written is taken off each layer's bias."""
    model = parse(SHARED, w=rng.normal(size=(40, 30)).astype(np.float32), b=np.zeros(30, np.float32))
    data = {name: rng.uniform(1, 3, (1, 40)).astype(np.float32) for name in "ac"}
    tensors = calibrate(model, {"a": [-1], "c": [-1]}, [(data, None)], 1).tensors
    settings = Settings.read({"layers": {"Gemm": "weights"}})
    rounding = SharedRounding(model, tensors, lambda: [data, data], lambda done, total: None).layers(settings)
    assert len(rounding) == 2

    written = write(model, settings, tensors, (), rounding)

    assert written.rounded_adaptively == []
    for exact, found in zip(execute(model, data), execute(written.model, data), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-4)


TABLES = """<ir_version: 8, opset_import: ["" : 17]>
g (int64[4] i, int64[3] j, bool c) => (float[4, 16] y, float[3, 16] z, float[3, 16] v) {
  y = Gather(t, i)
  z = Gather(t, j)
  v = If (c) <then_branch = yes () => (float[3, 16] a) { a = Gather(t, j) },
              else_branch = no () => (float[3, 16] n) { n = Identity(z) }>
}"""


def test_a_table_that_several_nodes_read_is_stored_once(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """The words of an encoder and of a decoder."""
    table = rng.normal(size=(64, 16)).astype(np.float32)
    model = parse(TABLES, t=table)

    written = write(prepared(model), Settings.read({"layers": {"Gather": "weights"}}), {})

    stored = [value for value in written.model.graph.initializers.values() if value.shape == (64, 16)]
    assert [value.dtype for value in stored] == [ir.DataType.INT8]
    i, j = np.array([3, 0, 63, 3]), np.array([5, 6, 7])
    rows = execute(written.model, {"i": i, "j": j, "c": np.array(True)})
    for found, places in zip(rows, (i, j, j), strict=True):
        np.testing.assert_allclose(found, table[places], atol=np.abs(table).max() / 127 / 2 * 1.001)
