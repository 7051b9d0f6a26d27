from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

SCALE, RESULT_SCALE = np.float32(0.0313157), np.float32(0.0471239)
"""Their ratio is not simple, so that no result is halfway between two levels."""


def levels(rng, *shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def zero(dtype, shift=7):
    return dtype(np.iinfo(dtype).min // 2 + 60 + shift)


@pytest.fixture
def check(agrees):
    def run(op_type, inputs, dtype=np.uint8, **keywords):
        agrees(op_type, inputs, domain="com.microsoft", outputs=(np.dtype(dtype).name,), **keywords)

    return run


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_binary(check, rng, op_type, dtype):
    a, b = levels(rng, 2, 3, 40, dtype=dtype), levels(rng, 3, 1, dtype=dtype)
    inputs = [a, SCALE, zero(dtype), b, np.float32(0.0231357), zero(dtype, 3), np.float32(0.1113), zero(dtype, 9)]
    check(op_type, inputs, dtype, fed=(0, 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("op_type", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2}), ("QLinearLeakyRelu", {})]
)
def test_activation(check, dtype, op_type, attributes):
    x = np.arange(256).astype(np.uint8).view(dtype).reshape(16, 16)
    scale = np.float32(1 / 256 if op_type == "QLinearSigmoid" else 0.03)
    check(op_type, [x, SCALE, zero(dtype), scale, zero(dtype, 0)], dtype, **attributes)


@pytest.mark.parametrize(("opset", "axis"), [(13, 1), (13, -1), (12, 1)])
def test_softmax(check, rng, opset, axis):
    inputs = [levels(rng, 2, 5, 4), SCALE, zero(np.uint8), np.float32(1 / 256), np.uint8(0)]
    check("QLinearSoftmax", inputs, axis=axis, named={"opset": opset})


def test_where(check, rng):
    chosen = [levels(rng, 3, 4), SCALE, np.uint8(99)]
    others = [levels(rng, 4), np.float32(0.0213), np.uint8(3)]
    inputs = [rng.uniform(0, 1, (3, 4)) > 0.5, *chosen, *others, RESULT_SCALE, np.uint8(100)]
    check("QLinearWhere", inputs, fed=(0, 1, 4))


def test_concat(check, rng):
    first = [levels(rng, 2, 3), SCALE, np.uint8(5)]
    second = [levels(rng, 2, 4), np.float32(0.0513), np.uint8(130)]
    check("QLinearConcat", [RESULT_SCALE, np.uint8(20), *first, *second], fed=(2, 5), axis=1)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("settings", [{"pads": [1, 0, 1, 1]}, {"group": 2, "strides": [2, 1]}])
def test_convolution(check, rng, channels_last, settings):
    x = levels(rng, 1, 6, 7, 4) if channels_last else levels(rng, 1, 4, 6, 7)
    w = levels(rng, 6, 4 // settings.get("group", 1), 3, 2, dtype=np.int8)
    bias = rng.integers(-3000, 3000, 6).astype(np.int32)
    inputs = [x, SCALE, np.uint8(40), w, np.float32(0.0053), np.int8(0), np.float32(0.0911), np.uint8(128), bias]
    check("QLinearConv", inputs, channels_last=channels_last, **settings)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize(
    "settings", [{}, {"pads": [1, 0, 1, 1], "strides": [2, 2]}, {"pads": [1, 1, 1, 1], "count_include_pad": 1}]
)
def test_average_pool(check, rng, channels_last, settings):
    x = levels(rng, 1, 6, 7, 3) if channels_last else levels(rng, 1, 3, 6, 7)
    inputs = [x, SCALE, np.uint8(40), RESULT_SCALE, np.uint8(90)]
    check("QLinearAveragePool", inputs, kernel_shape=[2, 3], channels_last=channels_last, **settings)


def test_average_pool_that_counts_what_is_beyond_the_padding_is_refused(lower, rng):
    inputs = [levels(rng, 1, 3, 6, 7), SCALE, np.uint8(40), RESULT_SCALE, np.uint8(90)]
    settings = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    with pytest.raises(UnsupportedOpsError, match="beyond it"):
        lower("QLinearAveragePool", inputs, outputs=["uint8"], domain="com.microsoft", **settings)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_global_average_pool(check, rng, channels_last):
    inputs = [levels(rng, 2, 5, 4, 8), SCALE, np.uint8(40), np.float32(0.0101), np.uint8(90)]
    check("QLinearGlobalAveragePool", inputs, channels_last=channels_last)


def test_max_pool_channels_last(check, rng):
    check("NhwcMaxPool", [levels(rng, 1, 5, 6, 8)], kernel_shape=[2, 2], strides=[2, 1])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_quantize_and_dequantize(agrees, rng, dtype):
    x = rng.standard_normal((3, 4)).astype(np.float32) * 4
    parameters = [SCALE, dtype(3)]
    agrees("QuantizeLinear", [x, *parameters], domain="com.microsoft", outputs=(np.dtype(dtype).name,))
    agrees("DequantizeLinear", [levels(rng, 3, 4, dtype=dtype), *parameters], domain="com.microsoft", axis=0)
