"""Convolution and transposed convolution, in one to three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgekit_mlruntime.kernels.onnx_op import run_onnx_op
from edgekit_mlruntime.kernels.windows import Padding, Windows, onnx_pads, pairs, split_padding
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("conv")
def conv(
    call: Call,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Ints | None = None,
    pad_type: str = "valid",
    pad: Ints | None = None,
    dilations: Ints | None = None,
    groups: int = 1,
) -> Array:
    """Correlate ``x`` [n, C_in, *D] with ``weight`` [C_out, C_in/groups, *K] and add ``bias`` [C_out].

    Each output dimension has ``floor((D + pad - (K - 1) * dilation - 1) / stride) + 1`` elements.
    """
    windows = Windows.over(weight.shape[2:], strides, dilations)
    padding = windows.padding(pad_type, pad, x.shape[2:])
    shape = (x.shape[0], weight.shape[0], *windows.counts(x.shape[2:], padding))
    if 0 in shape:
        return np.zeros(shape, np.float32)
    return run_onnx_op(
        call,
        padding,
        "Conv",
        {"x": x, "weight": weight, "bias": bias},
        work=math.prod(shape) * math.prod(weight.shape[1:]),
        shape=shape,
        blocked=max(windows.sizes) > 1,
        kernel_shape=windows.sizes,
        strides=windows.strides,
        dilations=windows.dilations,
        pads=onnx_pads(padding),
        group=groups,
    )


@kernel("conv_transpose")
def conv_transpose(
    call: Call,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    pad: Ints | None = None,
    output_shape: Ints | None = None,
    pad_type: str = "valid",
    strides: Ints | None = None,
    dilations: Ints | None = None,
    groups: int = 1,
) -> Array:
    """Gradient of ``conv`` with respect to its input, plus ``bias``.

    Takes ``x`` [n, C_in, *D] and ``weight`` [C_in, C_out/groups, *K]. The uncropped result has
    ``(D - 1) * stride + (K - 1) * dilation + 1`` elements in each dimension. ``custom`` cuts ``pad`` off it; ``same``
    and ``same_lower`` leave ``D * stride`` elements; ``output_shape`` fixes the size, so that the padding only says
    where to cut. If the requested size exceeds the uncropped one, the additional elements are the bias.
    """
    windows = Windows.over(weight.shape[2:], strides, dilations)
    sizes = zip(x.shape[2:], windows.strides, windows.extents, strict=True)
    full = tuple((size - 1) * stride + extent for size, stride, extent in sizes)
    wanted = tuple(output_shape[2:]) if output_shape else None
    padding = _cropping(windows, x.shape[2:], full, wanted, pad_type, pad)
    # ONNX's operator cannot extend the result by any number of elements: the result is extended afterward.
    cropped = tuple((before, max(after, 0)) for before, after in padding)
    spatial = tuple(size - before - after for size, (before, after) in zip(full, cropped, strict=True))
    result = run_onnx_op(
        call,
        cropped,
        "ConvTranspose",
        {"x": x, "weight": weight, "bias": bias},
        work=x.size * math.prod(weight.shape[1:]),
        shape=(x.shape[0], weight.shape[1] * groups, *spatial),
        kernel_shape=windows.sizes,
        strides=windows.strides,
        dilations=windows.dilations,
        pads=onnx_pads(cropped),
        group=groups,
    )
    lacking = [(0, max(-after, 0)) for _, after in padding]
    if not any(after for _, after in lacking):
        return result
    shape = result.shape[:2] + tuple(size + after for size, (_, after) in zip(result.shape[2:], lacking, strict=True))
    extended = np.zeros(shape, np.float32)
    if bias is not None:
        extended += bias.reshape(-1, *(1 for _ in full))
    extended[tuple(slice(size) for size in result.shape)] = result
    return extended


def _cropping(
    windows: Windows, spatial: Sequence[int], full: Ints, wanted: Ints | None, pad_type: str, pad: Ints | None
) -> Padding:
    """Number of elements to cut off before and after each dimension of the uncropped result; negative: to add."""
    if pad_type in ("valid", "custom"):
        padding = pairs(pad if pad_type == "custom" else None, len(full))
        if wanted is None:
            return padding
        return tuple((pad[0], size - pad[0] - want) for pad, size, want in zip(padding, full, wanted, strict=True))
    if wanted is None:
        wanted = tuple(size * stride for size, stride in zip(spatial, windows.strides, strict=True))
    surplus = [size - want for size, want in zip(full, wanted, strict=True)]
    shares = split_padding([max(amount, 0) for amount in surplus], pad_type)
    return tuple((before, amount - before) for (before, _), amount in zip(shares, surplus, strict=True))
