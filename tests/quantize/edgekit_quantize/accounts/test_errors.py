from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.accounts.errors import by_error_for_cost, layer_errors, stored_db
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.graph.layers import layers
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Settings

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[8, 4] x) => (float[8, 3] y) { y = MatMul(x, w) }"""


def test_errors_are_those_of_the_layer_s_output_but_for_their_mean(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    """The mean of the weights' error moves into the bias, so that for inputs about 5 only their deviation counts."""
    weights = rng.normal(size=(4, 3)).astype(np.float32)
    rows = rng.normal(5, [0.1, 0.2, 0.3, 0.4], (4000, 4)).astype(np.float32)
    model = parse(TEXT.replace("float[8", "float[N"), w=weights)
    plan = place(model.graph, Settings(layers={"MatMul": "input"}, sums_in_int16=False))
    tensors = calibrate(model, {"x": [-1]}, [({"x": rows}, None)], 1).tensors

    (error,) = layer_errors(plan, tensors)

    step, scale = (rows.max() - min(rows.min(), 0)) / 255, np.abs(weights).max(0) / 127
    of_weights = (rows - rows.mean(0)) @ (np.rint(weights / scale) * scale - weights)
    of_inputs = (np.rint(rows / step) * step - rows) @ weights
    power = np.mean((rows**2) @ (weights**2))
    assert error.weights_db == pytest.approx(10 * np.log10(power / np.mean(of_weights**2)), abs=0.5)
    assert error.inputs_db == pytest.approx(10 * np.log10(power / np.mean(of_inputs**2)), abs=0.5)
    assert error.sqnr_db == pytest.approx(10 * np.log10(power / np.mean(of_inputs**2 + of_weights**2)), abs=0.5)


def test_what_a_stored_layer_loses_does_not_hang_on_what_others_divide_its_input_by(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    model = parse(TEXT, w=rng.normal(size=(4, 3)).astype(np.float32))
    (layer,) = layers(model.graph)
    data = [({"x": (rng.normal(size=(8, 4)) * [20, 1, 1, 0.1]).astype(np.float32)}, None) for _ in range(4)]
    factors = {"x": Smoothing(np.array([20.0, 1.0, 1.0, 0.1], np.float32), -1)}
    params = symmetric_weights(layer.weights(), TYPES["int8"], layer.channel_axis)

    plain, divided = (calibrate(model, {"x": [-1]}, data, 4, None, by).tensors["x"] for by in (None, factors))

    assert stored_db(layer, params, divided) == pytest.approx(stored_db(layer, params, plain), rel=1e-5)


def test_the_largest_error_for_its_cost_comes_first() -> None:
    # powers of the errors: 0.1, 0.01, 0.2; for their costs 0.001, 0.01, 0.0002
    found = [("large", 10.0, 100.0), ("small", 20.0, 1.0), ("larger", 6.99, 1000.0)]
    assert list(by_error_for_cost(found).items()) == [("small", 1.0), ("large", 100.0), ("larger", 1000.0)]
