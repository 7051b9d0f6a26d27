from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.accounts.errors import stored_db
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
