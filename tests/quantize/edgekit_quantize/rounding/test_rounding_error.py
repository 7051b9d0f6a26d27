from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.placement import place
from edgekit_quantize.rounding.rounding_error import measure_rounding
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y) {
  y = Conv(x, w, b)
}"""
SETTINGS = Settings.read({"layers": {"Conv": "input"}, "ranges": {"Conv": "minmax"}})


def test_what_rounding_adds_on_average_is_taken_off(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    data = rng.uniform(0.004, 0.01, (1, 3, 8, 8)).astype(np.float32)  # steps are 10 / 255: all of these become 0
    data[0, 0, 0, 0] = 10.0
    model = parse(TEXT, w=np.ones((4, 3, 1, 1), np.float32), b=np.zeros(4, np.float32))
    plan = place(model.graph, SETTINGS)
    (layer,) = plan.layers
    tensors = calibrate(model, {"x": [layer.input_axis]}, [({"x": data}, None)], 1).tensors
    exact = execute(model, {"x": data})[0]

    measure_rounding(model, plan, tensors, [{"x": data}])

    step = np.float32(10 / 255)
    expected = np.rint(data / step) * step - data
    assert tensors["x"].rounding is not None
    np.testing.assert_allclose(tensors["x"].rounding, expected.mean((0, 2, 3)), rtol=1e-3)
    corrected = execute(write(model, SETTINGS, tensors).model, {"x": data})[0]
    tensors["x"].rounding = None
    plain = execute(write(model, SETTINGS, tensors).model, {"x": data})[0]
    assert abs(np.mean(corrected - exact)) < 1e-4 < 1e-2 < abs(np.mean(plain - exact))


def test_of_a_tensor_that_is_divided_the_quotients_are_rounded(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    data, factors = rng.uniform(0, 1, (1, 3, 8, 8)).astype(np.float32), np.array([0.1, 1.0, 4.0], np.float32)
    model = parse(TEXT, w=np.ones((4, 3, 1, 1), np.float32), b=np.zeros(4, np.float32))
    plan = place(model.graph, SETTINGS)
    divided = {"x": Smoothing(factors, 1)}
    tensors = calibrate(model, {"x": [1]}, [({"x": data}, None)] * 2, 2, smoothing=divided).tensors

    measure_rounding(model, plan, tensors, [{"x": data}])

    quotients = data / factors[:, None, None]
    step = quotients.max() / 255
    expected = np.clip(np.rint(quotients / step), 0, 255) * step - quotients
    np.testing.assert_allclose(tensors["x"].rounding, expected.mean((0, 2, 3)), atol=step * 1e-3)
