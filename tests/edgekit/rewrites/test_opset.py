"""Operators that ONNX Runtime takes in older operator sets than ONNX has them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

RNG = np.random.default_rng(5)
WEIGHTS = {"gain": RNG.standard_normal(6, np.float32), "offset": RNG.standard_normal(6, np.float32)}
NORMALIZED = "n = LayerNormalization <axis = -1, epsilon = 1e-5> (x, gain, offset)"


@pytest.mark.parametrize(
    ("opset", "rank", "rest"),
    [
        pytest.param(14, "a, b", "y = Relu (n)", id="whose other operators are the same in the newer set"),
        pytest.param(
            11, "a, b, c", "m = Unsqueeze <axes = [0]> (n) y = Softmax <axis = 1> (m)", id="which are converted"
        ),
    ],
)
def test_layer_normalization_of_an_older_set(onnx_file: Callable[..., Path], opset: int, rank: str, rest: str) -> None:
    file = onnx_file(f"g (float[2, 6] x) => (float[{rank}] y) {{ {NORMALIZED} {rest} }}", opset=opset, **WEIGHTS)
    result = Load()(file)
    assert result.model.opset == 17
    assert result.record["upgraded_from_opset"] == opset
    x = RNG.standard_normal((2, 6), np.float32)
    (expected,) = onnxruntime.InferenceSession(file).run(None, {"x": x})
    np.testing.assert_allclose(Reference(result.model).run({"x": x})["y"], expected, rtol=1e-6, atol=1e-6)
