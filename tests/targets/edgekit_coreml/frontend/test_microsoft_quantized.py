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
