"""Convolution whose operation holds quantized weights: in iOS 15 the predecessor of ``constexpr_`` weights."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.kernels.convolution import conv
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("conv_quantized")
def conv_quantized(
    call: Call,
    x: Array,
    weight: Array,
    quantization_type: str,
    quant_scale: Array,
    quant_bias: Array,
    nbits: int = 8,
    bias: Array | None = None,
    strides: Ints | None = None,
    pad_type: str = "valid",
    pad: Ints | None = None,
    dilations: Ints | None = None,
    groups: int = 1,
) -> Array:
    """``conv`` with the weight ``weight * quant_scale + quant_bias``; both have one value or one per output channel.

    Only ``quantization_type="linear"`` has a documented meaning.
    """
    if quantization_type != "linear":
        raise ExecutionError(
            "unknown quantization of a weight", operation=call.name, expected="linear", found=quantization_type
        )
    per_channel = (-1, *(1,) * (weight.ndim - 1))
    wide = weight.astype(np.float32) * quant_scale.reshape(per_channel) + quant_bias.reshape(per_channel)
    wide_bias = None if bias is None else bias.astype(np.float32)
    result: Array = conv(call, x, wide, wide_bias, strides, pad_type, pad, dilations, groups)
    return result
