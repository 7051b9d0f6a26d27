"""Convolution and transposed convolution, in one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, ct, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Infeasible, Unsupported, Value, constant
from edgekit_mil.support.movement import along_channels
from edgekit_mil.support.windows import Padding, Windows, explicit_padding, flat, halves, mil_padding


@lowering("Conv", versions=[1, 11, 22], note="1 to 3 spatial dimensions")
def conv(
    ctx: Context,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Cross-correlation of x [n, C, *D] with w [m, C/group, *K], plus b [m]."""
    windows = Windows.over(kernel_sizes(w, kernel_shape), strides, dilations)
    named = windows.named_padding(x, auto_pad)
    padding = () if named else windows.padding(x, auto_pad, pads)
    if not named:
        windows.require_one(x, padding)
    weight = w.var
    if not w.is_constant and windows.is_dilated:
        weight = with_holes(w, windows.dilations)
        windows = Windows(windows.extents, windows.strides, (1,) * len(windows.sizes))
    result = mb.conv(
        x=x.var,
        weight=weight,
        bias=b.operand if b is not None and b.is_constant else None,
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        groups=group,
        **mil_padding(named, padding),
    )
    return result if b is None or b.is_constant else plus_channels(result, b)


@lowering("ConvTranspose", versions=[1, 11, 22], note="1 to 3 spatial dimensions")
def conv_transpose(
    ctx: Context,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Gradient of the convolution with w [C, m/group, *K] at x [n, C, *D], plus b [m].

    The uncropped result has ``(D - 1) * stride + extent`` elements per dimension. Pads crop it; output padding, or a
    larger output shape, appends zeros.
    """
    if not (w.is_constant or ctx.at_least(ct.target.iOS17)):
        raise Unsupported("weights that the program computes need iOS 17")
    _require_groups(x, w, group)
    windows = Windows.over(kernel_sizes(w, kernel_shape), strides, dilations)
    crop = _crop(windows, x, auto_pad, pads, output_padding, output_shape)
    cut = tuple((max(before, 0), max(after, 0)) for before, after in crop)
    lacking = tuple((max(-before, 0), max(-after, 0)) for before, after in crop)
    extends = any(map(any, lacking))
    fused_bias = b is not None and b.is_constant and not extends
    weight = w.var
    if not w.is_constant and windows.is_dilated:
        weight = with_holes(w, windows.dilations)
        windows = Windows(windows.extents, windows.strides, (1,) * len(windows.sizes))
    result = mb.conv_transpose(
        x=x.var,
        weight=weight,
        bias=b.operand if b is not None and fused_bias else None,
        pad_type="custom",
        pad=flat(cut),
        strides=list(windows.strides),
        dilations=list(windows.dilations),
        groups=group,
    )
    if extends:
        result = mb.pad(x=result, pad=[0, 0, 0, 0, *flat(lacking)], mode="constant", constant_val=0.0)
    return result if fused_bias else plus_channels(result, b)


@lowering("Col2Im", versions=[18], note="1 to 3 spatial dimensions; shapes constant")
def col2im(
    ctx: Context,
    x: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Adds up blocks [n, C * block, L] where they overlap in an image [n, C, *D].

    This is a transposed convolution whose kernels put each element of a block in its place.
    """
    image, block = image_shape.ints("image_shape"), block_shape.ints("block_shape")
    windows = Windows.over(block, strides, dilations)
    padding = explicit_padding(pads, len(block))
    counts = windows.counts(image, padding)
    batch, elements, _ = x.static_shape
    channels = elements // int(np.prod(block))
    places = np.tile(np.eye(int(np.prod(block)), dtype=np.float32), (channels, 1)).reshape(elements, 1, *block)
    covered = [
        (count - 1) * stride + extent - sum(pad)
        for count, stride, extent, pad in zip(counts, windows.strides, windows.extents, padding, strict=True)
    ]
    return conv_transpose(
        ctx,
        Value(x.dtype, variable=mb.reshape(x=x.var, shape=[batch, elements, *counts])),
        constant(places),
        dilations=dilations,
        group=channels,
        output_padding=[size - cover for size, cover in zip(image, covered, strict=True)],
        pads=pads,
        strides=strides,
    )


def _require_groups(x: Value, w: Value, group: int) -> None:
    """Checks that the groups share the channels, and that each channel has weights.

    Raises:
        Infeasible: They do not.
    """
    channels, rows = x.shape[1], w.shape[0]
    if group < 1 or (isinstance(channels, int) and (channels % group or channels != rows)):
        raise Infeasible(f"has {channels} channels in {group} groups, and weights for {rows}")


def kernel_sizes(w: Value, kernel_shape: Sequence[int] | None) -> tuple[int, ...]:
    """Sizes of the kernel, from the weights.

    Raises:
        Unsupported: The attribute ``kernel_shape`` contradicts the weights.
    """
    sizes = w.static_shape[2:]
    if kernel_shape is not None and tuple(kernel_shape) != sizes:
        raise Unsupported(f"kernel_shape {list(kernel_shape)} contradicts weights of shape {list(w.static_shape)}")
    return sizes


def with_holes(w: Value, dilations: Sequence[int]) -> Var:
    """Inserts zeros between the elements of computed weights: Core ML dilates constant weights only."""
    kernel, shape = w.var, list(w.static_shape)
    for axis, dilation in enumerate(dilations, start=2):
        if dilation == 1 or shape[axis] == 1:
            continue
        before, size, after = int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))
        kernel = mb.reshape(x=kernel, shape=[before, size, 1, after])
        kernel = mb.pad(x=kernel, pad=[0, 0, 0, 0, 0, dilation - 1, 0, 0], mode="constant", constant_val=0.0)
        kernel = mb.reshape(x=kernel, shape=[before, size * dilation, after])
        shape[axis] = (size - 1) * dilation + 1
        kernel = mb.slice_by_size(x=kernel, begin=[0, 0, 0], size=[before, shape[axis], after])
        kernel = mb.reshape(x=kernel, shape=shape)
    return kernel


def plus_channels(result: Var, b: Value | None) -> Var:
    """The result [n, m, *D] plus b [m]."""
    return result if b is None else mb.add(x=result, y=along_channels(b, result.rank))


def _crop(
    windows: Windows,
    x: Value,
    auto_pad: str,
    pads: Sequence[int] | None,
    output_padding: Sequence[int] | None,
    output_shape: Sequence[int] | None,
) -> Padding:
    """Number of elements to crop before and after each dimension of the uncropped result; negative to add elements."""
    count = len(windows.sizes)
    added = tuple(output_padding or (0,) * count)
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    if output_shape is None and not same:
        padding = explicit_padding(pads if auto_pad == "NOTSET" else None, count)
        return tuple((before, after - more) for (before, after), more in zip(padding, added, strict=True))
    totals = [extent - stride for stride, extent in zip(windows.strides, windows.extents, strict=True)]
    if output_shape is not None:
        sizes = x.static_sizes(range(2, x.rank))
        wanted = zip(sizes, windows.strides, list(output_shape)[-count:], strict=True)
        totals = [total + size * stride - want for total, (size, stride, want) in zip(totals, wanted, strict=True)]
    crop = []
    for total, more in zip(totals, added, strict=True):
        # If windows do not overlap, ONNX Runtime and ONNX's shape inference add nothing at the end for the sizes of
        # SAME.
        cut = total + more if output_shape is not None else max(total + more, 0)
        # Elements that an output shape lacks are added at the end, as in ONNX Runtime and ONNX's reference
        # implementation.
        before, after = (0, cut) if cut < 0 else halves(cut, extra_at_end=auto_pad == "SAME_UPPER")
        crop.append((before, after - more))
    return tuple(crop)
