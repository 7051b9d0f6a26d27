from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

DOMAIN = "com.microsoft"


def levels(rng, dtype, *shape):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def test_dynamic_quantization_agrees(agrees, rng):
    x = rng.standard_normal((3, 4), dtype=np.float32)
    agrees("DynamicQuantizeLinear", [x], outputs=("uint8", "float32", "uint8"), opset=11)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_dynamic_quantize_matmul_agrees(agrees, rng, per_column, biased):
    count = (5,) if per_column else ()
    inputs = [
        rng.standard_normal((3, 8), dtype=np.float32),
        levels(rng, np.int8, 8, 5),
        (rng.random(count) + 0.5).astype(np.float32),
        np.zeros(count, np.int8),
        *([rng.standard_normal(5, dtype=np.float32)] if biased else []),
    ]
    agrees("DynamicQuantizeMatMul", inputs, domain=DOMAIN, rtol=1e-3, atol=1e-2)


def test_matmul_integer_to_float_agrees(agrees, rng):
    inputs = [
        *(levels(rng, np.uint8, 3, 8), levels(rng, np.int8, 8, 5)),
        *(np.float32(0.02), np.float32(0.03), np.uint8(100), np.int8(0)),
        rng.standard_normal(5, dtype=np.float32),
    ]
    agrees("MatMulIntegerToFloat", inputs, domain=DOMAIN, rtol=1e-4)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("k", "block"), [(64, 32), (64, 16), (48, 32)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_matmul_of_few_bits_agrees(agrees, rng, bits, k, block, zeros):
    n, blocks = 6, -(-k // block)
    zero_bytes = -(-blocks * bits // 8)
    inputs = [
        rng.standard_normal((3, k), dtype=np.float32),
        levels(rng, np.uint8, n, blocks, block * bits // 8),
        rng.random((n, blocks), np.float32) + 0.5,
        *([levels(rng, np.uint8, n, zero_bytes)] if zeros else []),
    ]
    agrees("MatMulNBits", inputs, domain=DOMAIN, K=k, N=n, bits=bits, block_size=block, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("k", [64, 48], ids=["whole blocks", "half a block"])
@pytest.mark.parametrize("bits", [2, 4])
def test_zero_points_that_are_floats(agrees, rng, bits, k):
    """As HQQ finds them."""
    n, blocks = 6, -(-k // 32)
    inputs = [
        rng.standard_normal((2, 3, k), dtype=np.float32),
        levels(rng, np.uint8, n, blocks, 32 * bits // 8),
        rng.random((n, blocks), np.float32) + 0.5,
        rng.uniform(0, 1 << bits, (n, blocks)).astype(np.float32),
    ]
    agrees("MatMulNBits", inputs, domain=DOMAIN, K=k, N=n, bits=bits, block_size=32, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("zeros", [False, True])
def test_columns_that_name_their_blocks(agrees, rng, zeros):
    """As GPTQ writes them when it orders columns by their activations."""
    inputs = [
        rng.standard_normal((3, 64), dtype=np.float32),
        levels(rng, np.uint8, 6, 2, 16),
        rng.random((6, 2), np.float32) + 0.5,
        rng.uniform(0, 16, (6, 2)).astype(np.float32) if zeros else None,
        rng.permutation(np.repeat(np.arange(2, dtype=np.int32), 32)),
    ]
    agrees("MatMulNBits", inputs, domain=DOMAIN, K=64, N=6, bits=4, block_size=32, rtol=1e-3, atol=1e-2)


def test_blocks_of_several_lengths_are_refused(lower, rng):
    blocks = np.repeat(np.arange(2, dtype=np.int32), [40, 24])
    inputs = [
        *(rng.standard_normal((3, 64), dtype=np.float32), levels(rng, np.uint8, 6, 2, 16)),
        *(rng.random((6, 2), np.float32), None, blocks),
    ]
    with pytest.raises(UnsupportedOpsError, match="blocks of several lengths"):
        lower("MatMulNBits", inputs, domain=DOMAIN, fed=(0,), K=64, N=6, bits=4, block_size=32)


@pytest.mark.parametrize("quantized", [False, True])
def test_qgemm_agrees(agrees, rng, quantized):
    inputs = [
        *(levels(rng, np.uint8, 3, 8), np.float32(0.02), np.uint8(120)),
        *(levels(rng, np.int8, 5, 8), np.float32(0.03), np.int8(0)),
        rng.integers(-999, 999, 5, np.int32),
        *([np.float32(0.5), np.uint8(100)] if quantized else []),
    ]
    outputs = ["uint8" if quantized else "float32"]
    agrees("QGemm", inputs, outputs=outputs, domain=DOMAIN, transB=1, rtol=1e-4, atol=1e-4)
