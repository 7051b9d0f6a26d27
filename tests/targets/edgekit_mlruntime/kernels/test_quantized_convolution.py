from __future__ import annotations

import numpy as np
import pytest
from torch import tensor
from torch.nn import functional

from edgekit_mlruntime.failures import ExecutionError


@pytest.mark.parametrize("scale", [[0.1], [0.1, 0.02, 0.3]])
def test_weights_are_dequantized_for_each_channel(run_op, rng, scale):
    x, weight = rng.standard_normal((1, 2, 5, 5), np.float32), rng.integers(0, 256, (3, 2, 3, 3)).astype(np.uint8)
    scale, shift = np.float32(scale), np.float32([-12.8])
    expected = functional.conv2d(
        tensor(x), tensor(weight) * tensor(scale).reshape(-1, 1, 1, 1) + tensor(shift), stride=2
    )
    actual = run_op(
        "conv_quantized",
        x=x, weight=weight, quantization_type="linear", quant_scale=scale, quant_bias=shift, strides=[2, 2],
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_undocumented_quantization_is_refused(run_op):
    with pytest.raises(ExecutionError, match="expected: linear"):
        run_op(
            "conv_quantized",
            x=np.zeros((1, 1, 1, 1), np.float32), weight=np.zeros((1, 1, 1, 1), np.uint8), quantization_type="lut",
            quant_scale=np.float32([1]), quant_bias=np.float32([0]),
        )  # fmt: skip
