from __future__ import annotations

import numpy as np
import pytest

STEPS, INPUT, HIDDEN = 5, 6, 4


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantized_lstm_agrees(agrees, rng, direction, per_channel, dtype):
    count = 2 if direction == "bidirectional" else 1
    limits = np.iinfo(dtype)
    w, r = (rng.integers(limits.min, limits.max, (count, size, 4 * HIDDEN)).astype(dtype) for size in (INPUT, HIDDEN))
    scales = (count, 4 * HIDDEN) if per_channel else (count,)
    parameters = [
        part
        for _ in range(2)
        for part in (rng.uniform(0.002, 0.01, scales).astype(np.float32), np.full(scales, limits.max // 2, dtype))
    ]
    if dtype is np.int8:
        parameters[1::2] = [np.zeros(scales, dtype)] * 2
    x = rng.standard_normal((STEPS, 1, INPUT)).astype(np.float32)
    states = [rng.standard_normal((count, 1, HIDDEN)).astype(np.float32) for _ in range(2)]
    bias = rng.standard_normal((count, 8 * HIDDEN)).astype(np.float32)
    agrees(
        "DynamicQuantizeLSTM", [x, w, r, bias, None, *states, None, *parameters], fed=[0, 5, 6],
        outputs=["float32"] * 3, domain="com.microsoft", atol=1e-4, direction=direction, hidden_size=HIDDEN,
    )  # fmt: skip
