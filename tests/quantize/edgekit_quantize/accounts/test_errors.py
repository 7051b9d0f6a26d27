from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.accounts.errors import by_error_for_cost, stored_db
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.graph.layers import layers
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[8, 4] x) => (float[8, 3] y) { y = MatMul(x, w) }"""


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
