from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import TensorStatistics, calibrate
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
    data = {"x": rng.uniform(1, 3, (1, 40)).astype(np.float32)}  # of one sample the mean is all there is
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
