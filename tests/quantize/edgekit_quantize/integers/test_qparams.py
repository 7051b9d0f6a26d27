from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from edgekit_quantize.integers.qparams import TYPES, QParams, asymmetric, symmetric


def test_asymmetric_range_by_hand() -> None:
    params = asymmetric(-1.0, 4.1, TYPES["uint8"])

    assert params.scale == pytest.approx(0.02)
    assert params.zero_point == 50  # 1.0 / 0.02
    assert params.quantize(np.array([-1.0, 0.0, 4.1, 9.0], np.float32)).tolist() == [0, 50, 255, 255]


def test_asymmetric_range_is_widened_to_hold_zero() -> None:
    assert asymmetric(2.0, 5.1, TYPES["uint8"]).zero_point == 0
    assert asymmetric(-5.1, -2.0, TYPES["uint8"]).zero_point == 255


def test_symmetric_range_by_hand() -> None:
    params = symmetric(-2.54, 1.0, TYPES["int8"])

    assert params.scale == pytest.approx(0.02)
    assert params.quantize(np.array([-2.54, 1.0], np.float32)).tolist() == [-127, 50]


def test_the_middle_of_unsigned_integers_stands_for_zero() -> None:
    params = symmetric(-2.54, 1.0, TYPES["uint8"])

    assert params.scale == pytest.approx(0.02)
    assert params.quantize(np.array([-2.54, 0.0, 1.0, 2.54], np.float32)).tolist() == [1, 128, 178, 255]


@pytest.mark.parametrize("low", [0.0, -0.0, -1e-40])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_an_empty_range_keeps_zero_exact(low: float, dtype: str) -> None:
    params = asymmetric(low, 0.0, TYPES[dtype])
    assert params.quantize(np.array([0.0, 3.0], np.float32)).tolist() == [0, 3]
    assert params.rounded(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("axis", [0, 1])
def test_integers_are_those_of_the_operators(rng: np.random.Generator, axis: int) -> None:
    array = rng.normal(size=(3, 4)).astype(np.float32)
    count = array.shape[axis]
    scale, zero = rng.uniform(0.01, 0.03, count).astype(np.float32), rng.integers(-9, 9, count)
    params = QParams(scale, zero.astype(np.int32), TYPES["int8"], axis)
    quantize = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis)
    dequantize = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis)
    feeds = {"x": array, "s": scale, "z": zero.astype(np.int8)}
    (integers,) = ReferenceEvaluator(quantize).run(None, feeds)
    (floats,) = ReferenceEvaluator(dequantize).run(None, {"q": integers, **feeds})

    np.testing.assert_array_equal(params.quantize(array), integers)
    np.testing.assert_array_equal(params.rounded(array), floats)


@pytest.mark.parametrize(
    ("axis", "block", "scales"), [(None, 0, ()), (0, 0, (7,)), (1, 0, (6,)), (0, 2, (4, 6)), (1, 4, (7, 2))]
)
def test_large_arrays_are_quantized_in_parts(
    axis: int | None, block: int, scales: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    array = rng.normal(size=(7, 6)).astype(np.float32)
    scale = rng.uniform(0.01, 0.02, scales).astype(np.float32)
    params = QParams(scale, np.zeros(scales, np.int32), TYPES["int8"], axis, block)
    whole, error = params.quantize(array), params.squared_error(array)
    assert error == pytest.approx(np.sum((params.dequantize(whole).astype(np.float64) - array) ** 2), rel=1e-5)

    monkeypatch.setattr("edgekit_quantize.integers.qparams.PART", 13)  # two rows of six

    assert len(list(params.parts(array))) == 4
    np.testing.assert_array_equal(params.quantize(array), whole)
    assert params.squared_error(array) == pytest.approx(error)
