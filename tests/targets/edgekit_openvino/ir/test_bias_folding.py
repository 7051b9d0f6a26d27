"""Biases that are stored as integers become floats, and nothing else does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from edgekit_openvino.ir.bias_folding import fold_biases

INTEGERS = np.array([2**24 + 1, -3, 7], np.int32)


def _biased(integers: np.ndarray, scale: np.ndarray, *, scale_first: bool = False) -> Any:
    """``x`` plus scaled integers."""
    x = opset13.parameter([2, 3], np.float32, "x")
    widened, factor = opset13.convert(opset13.constant(integers), "f32"), opset13.constant(scale)
    scaled = opset13.multiply(factor, widened) if scale_first else opset13.multiply(widened, factor)
    return openvino.Model([opset13.add(x, scaled)], [x], "biased")


def _kinds(network: Any) -> Counter[str]:
    return Counter(operation.get_type_name() for operation in network.get_ops())


def _output(network: Any) -> np.ndarray:
    x = np.array([[1, 2, 3], [-4, 5, 0.5]], np.float32)
    (found,) = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x]).values()
    return np.asarray(found)


@pytest.mark.parametrize("scale", [np.array([0.5, 2, 0.1], np.float32), np.array(0.3, np.float32)])
@pytest.mark.parametrize("scale_first", [False, True])
def test_a_scaled_bias_becomes_floats(scale: np.ndarray, scale_first: bool) -> None:
    network = _biased(INTEGERS, scale, scale_first=scale_first)
    before = _output(network)

    fold_biases(network)

    assert _kinds(network) == {"Parameter": 1, "Constant": 1, "Add": 1, "Result": 1}
    np.testing.assert_array_equal(_output(network), before)


@pytest.mark.parametrize(
    ("integers", "scale"),
    [
        (INTEGERS.astype(np.int8), np.ones(3, np.float32)),  # weights
        (INTEGERS[:1], np.ones((2, 3), np.float32)),  # six floats in place of one integer
    ],
)
def test_what_is_smaller_as_it_is_stays(integers: np.ndarray, scale: np.ndarray) -> None:
    network = _biased(integers, scale)
    before = _kinds(network)

    fold_biases(network)

    assert _kinds(network) == before
