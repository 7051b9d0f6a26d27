"""Convolutions. Apple's operations have two or three spatial dimensions, and neither padding nor bias."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit_coreai.translation.builder import INT_MAX, Builder
from edgekit_coreai.translation.ops.windows import Padding, extents, padding_of, split
from edgekit_coreai.translation.registry import Call, CannotTranslate, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor


def _with_bias(b: Builder, x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        return x
    return b.add(x, b.reshape(b.cast(bias, x.dtype), [1, -1, *(1,) * (x.rank - 2)]))


def padded(b: Builder, x: Tensor, padding: Padding, value: float = 0.0) -> Tensor:
    """Pad the spatial dimensions of [n, C, *D]."""
    return b.pad(x, [(0, 0), (0, 0), *padding], value)


@lowering("conv")
def conv(
    b: Builder,
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: Ints | None = None,
    pad_type: str = "valid",
    pad: Ints | None = None,
    dilations: Ints | None = None,
    groups: int = 1,
) -> Tensor:
    """Correlate ``x`` [n, C_in, *D] with ``weight`` [C_out, C_in/groups, *K] and add ``bias`` [C_out]."""
    spatial = x.rank - 2
    strides, dilations = strides or (1,) * spatial, dilations or (1,) * spatial
    reach = extents(_static(weight.shape[2:], "weight"), dilations)
    weight = b.cast(weight, x.dtype)
    source = padded(b, x, padding_of(x, pad_type, pad, reach, strides))
    if spatial == 1:
        made = b.conv("conv2d", b.expand(source, [2]), b.expand(weight, [2]), (1, *strides), (1, *dilations), groups)
        return _with_bias(b, b.squeeze(made, [2]), bias)
    return _with_bias(b, b.conv(f"conv{spatial}d", source, weight, strides, dilations, groups), bias)


@lowering("conv_transpose")
def conv_transpose(
    b: Builder,
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: Ints | None = None,
    output_shape: Ints | None = None,
    pad_type: str = "valid",
    strides: Ints | None = None,
    dilations: Ints | None = None,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv`` with respect to its input, plus ``bias``; ``weight`` is [C_in, C_out/groups, *K]."""
    spatial = x.rank - 2
    strides, dilations = strides or (1,) * spatial, dilations or (1,) * spatial
    kernel = _static(weight.shape[2:], "weight")
    reach = extents(kernel, dilations)
    wanted = tuple(output_shape[2:]) if output_shape else None
    cuts = _cropping(x, strides, reach, wanted, pad_type, pad)
    weight = b.cast(weight, x.dtype)
    source = x
    if spatial == 1:
        source, weight = b.expand(x, [2]), b.expand(weight, [2])
        strides, dilations, reach, cuts = (1, *strides), (1, *dilations), [1, *reach], [(0, 0), *cuts]
    # Apple's operation can cut equally before and after, or after by less than a stride less than before. Any other cut
    # is a slice of its result.
    inside = [
        before >= 0 and 0 <= before - after < stride for (before, after), stride in zip(cuts, strides, strict=True)
    ]
    pads = [before if ok else 0 for ok, (before, _) in zip(inside, cuts, strict=True)]
    extra = [before - after if ok else 0 for ok, (before, after) in zip(inside, cuts, strict=True)]
    sizes = [
        None if size is None else (size - 1) * stride + extent - 2 * cut + more
        for size, stride, extent, cut, more in zip(source.shape[2:], strides, reach, pads, extra, strict=True)
    ]
    channels = weight.shape[1]
    assert channels is not None
    shape = [source.shape[0], channels * groups, *sizes]
    made = b.conv_transpose(source, weight, shape, strides, pads, dilations, extra, groups)
    for axis, (ok, (before, after)) in enumerate(zip(inside, cuts, strict=True), start=2):
        if not ok and (before > 0 or after > 0):
            made = b.narrow(made, axis, max(before, 0), -after if after > 0 else INT_MAX)
    lacking = [
        (max(-before, 0), max(-after, 0)) if not ok else (0, 0)
        for ok, (before, after) in zip(inside, cuts, strict=True)
    ]
    made = padded(b, made, lacking)
    if spatial == 1:
        made = b.squeeze(made, [2])
    return _with_bias(b, made, bias)


def _cropping(
    x: Tensor,
    strides: Sequence[int],
    reach: Sequence[int],
    wanted: Sequence[int] | None,
    pad_type: str,
    pad: Ints | None,
) -> Padding:
    """Number of elements to cut off before and after each dimension of the uncropped result; negative: to add."""
    full = [
        None if size is None else (size - 1) * stride + extent
        for size, stride, extent in zip(x.shape[2:], strides, reach, strict=True)
    ]
    if pad_type in ("valid", "custom"):
        flat = (pad if pad_type == "custom" else None) or (0,) * (2 * len(full))
        padding = list(zip(flat[::2], flat[1::2], strict=True))
        if wanted is None:
            return padding
        return [
            (before, _known(size) - before - want)
            for (before, _), size, want in zip(padding, full, wanted, strict=True)
        ]
    if wanted is None:
        # The result has size * stride elements.
        amounts = [extent - stride for extent, stride in zip(reach, strides, strict=True)]
    else:
        amounts = [_known(size) - want for size, want in zip(full, wanted, strict=True)]
    return [split(amount, pad_type) if amount >= 0 else (0, amount) for amount in amounts]


def _known(size: int | None) -> int:
    if size is None:
        raise CannotTranslate("output_shape of an input whose size is open")
    return size


def _static(shape: Sequence[int | None], name: str) -> list[int]:
    if None in shape:
        raise CannotTranslate(f"the shape of {name} is open")
    return [size for size in shape if size is not None]
