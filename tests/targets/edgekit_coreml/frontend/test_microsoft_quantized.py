from __future__ import annotations

import numpy as np
import pytest

DOMAIN = "com.microsoft"


def levels(rng, dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def triple(rng, *shape):
    return [levels(rng, np.uint8, *shape), np.float32(0.05), np.uint8(110)]


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_binary_operators_agree(agrees, rng, op_type):
    inputs = [*triple(rng, 3, 4), *triple(rng, 3, 4), np.float32(0.11), np.uint8(90)]
    agrees(op_type, inputs, fed=(0, 3), outputs=["uint8"], domain=DOMAIN, atol=1)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {}),
    ],
)
def test_unary_operators_agree(agrees, rng, op_type, attributes):
    shape = (2, 3, 4, 4) if "Pool" in op_type else (3, 4)
    inputs = [*triple(rng, *shape), np.float32(0.01), np.uint8(3)]
    agrees(op_type, inputs, outputs=["uint8"], domain=DOMAIN, atol=1, **attributes)


def test_concatenation_agrees(agrees, rng):
    inputs = [np.float32(0.06), np.uint8(100), *triple(rng, 2, 3), *triple(rng, 2, 4)]
    agrees("QLinearConcat", inputs, fed=(2, 5), outputs=["uint8"], domain=DOMAIN, axis=1, atol=1)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_agrees(agrees, rng, axis, opset):
    inputs = [*triple(rng, 2, 3, 4), np.float32(1 / 256), np.uint8(0)]
    agrees("QLinearSoftmax", inputs, outputs=["uint8"], domain=DOMAIN, named={"opset": opset, "axis": axis}, atol=1)


def test_choice_agrees(agrees, rng):
    condition = np.array([[True], [False], [True]])
    inputs = [condition, *triple(rng, 3, 4), *triple(rng, 3, 4), np.float32(0.07), np.uint8(99)]
    agrees("QLinearWhere", inputs, fed=(0, 1, 4), outputs=["uint8"], domain=DOMAIN, atol=1)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_average_pool_agrees(agrees, rng, channels_last):
    inputs = [*triple(rng, 1, 6, 6, 3), np.float32(0.06), np.uint8(80)]
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": channels_last}
    agrees("QLinearAveragePool", inputs, outputs=["uint8"], domain=DOMAIN, atol=1, **attributes)


def test_max_pool_with_channels_last_agrees(agrees, rng):
    x = levels(rng, np.uint8, 1, 6, 5, 3)
    agrees("NhwcMaxPool", [x], outputs=["uint8"], domain=DOMAIN, kernel_shape=[2, 2], strides=[2, 1])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_quantization_agrees(agrees, rng, dtype):
    name, scale, zero = np.dtype(dtype).name, np.float32(0.05), dtype(3)
    x = rng.standard_normal((3, 4), dtype=np.float32) * 4
    agrees("QuantizeLinear", [x, scale, zero], outputs=[name], domain=DOMAIN)
    agrees("DequantizeLinear", [levels(rng, dtype, 3, 4), scale, zero], domain=DOMAIN)
