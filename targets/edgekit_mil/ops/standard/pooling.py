"""Maximum, average and Lp pooling over sliding windows or all elements, and the inverse of maximum pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FIX_SIZES, Unsupported, Value, computed
from edgekit_mil.support import runtime_shapes
from edgekit_mil.support.runtime_shapes import is_number, or_rest, size_of, zeros
from edgekit_mil.support.windows import Padding, Windows, flat, mil_padding


@lowering("MaxPool", versions=[1, 8, 10, 11, 12, 22], note="1 to 3 spatial dimensions")
def max_pool(
    ctx: Context,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> tuple[Value, Value | None]:
    """Maximum of each window of x [n, C, *D], and its position in the flattened x on demand."""
    windows = Windows.over(kernel_shape, strides, dilations)
    data = x.var if x.is_float else mb.cast(x=x.var, dtype="fp32")  # exact: only 8-bit integers are allowed
    asks_positions = len(ctx.output_used) > 1 and ctx.output_used[1]
    named = None if windows.is_dilated or asks_positions else windows.named_padding(x, auto_pad)
    padding = () if named else windows.padding(x, auto_pad, pads)
    reach = windows.reach(x, padding, rounds_up(ceil_mode, auto_pad))
    if not named:
        windows.require_one(x, reach)
    if windows.is_dilated:
        result = over_taps(data, windows, reach, -np.inf, mb.maximum)
    else:
        result = mb.max_pool(
            x=data,
            kernel_sizes=list(windows.sizes),
            strides=list(windows.strides),
            **mil_padding(named, reach),
        )
    indices = None
    if asks_positions:
        indices = computed(
            positions_of_maxima(
                data, x.static_sizes(range(1, x.rank)), windows, reach, column_major=storage_order == 1
            ),
            ir.DataType.INT64,
        )
    return computed(result if x.is_float else mb.cast(x=result, dtype="int32"), x.dtype), indices


@lowering("AveragePool", versions=[1, 7, 10, 11, 19, 22], note="1 to 3 spatial dimensions")
def average_pool(
    ctx: Context,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Mean of each window of x [n, C, *D]; padding counts as zeros only with count_include_pad."""
    windows = Windows.over(kernel_shape, strides, dilations)
    named = None if windows.is_dilated else windows.named_padding(x, auto_pad)
    padding = () if named else windows.padding(x, auto_pad, pads)
    is_upward = rounds_up(ceil_mode, auto_pad)
    if not named:
        windows.require_one(x, windows.reach(x, padding, is_upward))
    if not is_upward and not windows.is_dilated:
        return mb.avg_pool(
            x=x.var,
            kernel_sizes=list(windows.sizes),
            strides=list(windows.strides),
            **mil_padding(named, padding),
            exclude_padding_from_average=not count_include_pad,
        )
    reach = windows.reach(x, padding, is_upward)
    if not windows.is_dilated and any(not isinstance(size, int | np.integer) for size in x.shape[2:]):
        return mean_within(x.var, windows, reach, padding if count_include_pad else ((0, 0),) * len(padding))
    spatial = x.static_sizes(range(2, x.rank))
    counted = padding if count_include_pad else ((0, 0),) * len(padding)
    shares = 1.0 / elements_in_windows(windows, spatial, reach, counted)
    return mb.mul(x=sum_pool(x.var, windows, reach), y=shares.astype(np.float32))


@lowering("LpPool", versions=[2, 11, 18, 22], note="1 to 3 spatial dimensions")
def lp_pool(
    ctx: Context,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """p-norm of each window of x [n, C, *D]."""
    windows = Windows.over(kernel_shape, strides, dilations)
    padding = windows.padding(x, auto_pad, pads)
    reach = windows.reach(x, padding, rounds_up(ceil_mode, auto_pad))
    windows.require_one(x, reach)
    return root(sum_pool(power_of_magnitude(x.var, p), windows, reach), p)


@lowering("GlobalAveragePool", versions=[1, 22])
def global_average_pool(ctx: Context, x: Value) -> Var:
    """Mean over all spatial dimensions."""
    return mb.reduce_mean(x=x.var, axes=spatial_axes(x), keep_dims=True)


@lowering("GlobalMaxPool", versions=[1, 22])
def global_max_pool(ctx: Context, x: Value) -> Var:
    """Maximum over all spatial dimensions."""
    return mb.reduce_max(x=x.var, axes=spatial_axes(x), keep_dims=True)


@lowering("GlobalLpPool", versions=[2, 22])
def global_lp_pool(ctx: Context, x: Value, *, p: int = 2) -> Var:
    """p-norm over all spatial dimensions."""
    return root(mb.reduce_sum(x=power_of_magnitude(x.var, p), axes=spatial_axes(x), keep_dims=True), p)


@lowering("MaxUnpool", versions=[9, 11, 22])
def max_unpool(
    ctx: Context,
    x: Value,
    i: Value,
    output_shape: Value | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Var:
    """Zeros with x's elements at the positions i, which are indices into the flattened tensor that was pooled.

    If there is an output shape, the positions are still indices into the shape given by kernel, pads and strides: the
    result lies in the corner of the larger tensor.
    """
    windows = Windows.over(kernel_shape, strides, None)
    padding = windows.padding(x, "NOTSET", pads)
    sizes = x.static_shape if output_shape is not None else (or_rest(x.shape[0]), *x.static_sizes(range(1, x.rank)))
    inferred = [
        *sizes[:2],
        *(
            (size - 1) * stride + extent - sum(pad)
            for size, stride, extent, pad in zip(sizes[2:], windows.strides, windows.extents, padding, strict=True)
        ),
    ]
    flat_zeros = zeros([_times(size_of(x.var, 0), int(np.prod(inferred[1:])))])
    scattered = mb.scatter(
        data=flat_zeros,
        indices=mb.reshape(x=i.var, shape=[-1]),
        updates=mb.reshape(x=x.var, shape=[-1]),
        axis=0,
        mode="update",
    )
    result = mb.reshape(x=scattered, shape=inferred)
    if output_shape is None:
        return result
    wanted = output_shape.ints("output_shape")
    if any(want < size for want, size in zip(wanted, inferred, strict=True)):
        raise Unsupported(f"output_shape {wanted} is smaller than {inferred}, which the windows give")
    lacking = tuple((0, want - size) for want, size in zip(wanted, inferred, strict=True))
    return mb.pad(x=result, pad=flat(lacking), mode="constant", constant_val=0.0)


def rounds_up(ceil_mode: int, auto_pad: str) -> bool:
    """Whether the number of windows is rounded up: only with explicit padding or none."""
    return bool(ceil_mode) and auto_pad in ("NOTSET", "VALID")


def spatial_axes(x: Value) -> list[int]:
    """All axes except batch and channels.

    Raises:
        Unsupported: There are no spatial axes.
    """
    if x.rank < 3:
        raise Unsupported(f"needs spatial dimensions, found rank {x.rank}")
    return list(range(2, x.rank))


def power_of_magnitude(x: Var, p: int) -> Var:
    """``|x| ** p``."""
    if p == 1:
        return mb.abs(x=x)
    return mb.square(x=x) if p == 2 else mb.pow(x=mb.abs(x=x), y=float(p))


def root(x: Var, p: int) -> Var:
    """``x ** (1 / p)`` of numbers that are not negative."""
    if p == 1:
        return x
    return mb.sqrt(x=x) if p == 2 else mb.pow(x=x, y=1.0 / p)


def sum_pool(x: Var, windows: Windows, reach: Padding) -> Var:
    """Sum of each window; positions beyond the input count as zero."""
    if windows.is_dilated:
        return over_taps(x, windows, reach, 0.0, mb.add)
    mean = mb.avg_pool(
        x=x, kernel_sizes=list(windows.sizes), strides=list(windows.strides), pad_type="custom", pad=flat(reach)
    )
    return mb.mul(x=mean, y=np.float32(np.prod(windows.sizes)))


def mean_within(x: Var, windows: Windows, reach: Padding, counted: Padding) -> Var:
    """Mean of each window's elements in the input or in its ``counted`` padding; sizes may be open.

    Padding that no window reaches, as a window that would start there is left out, is left out as well.
    """
    counted = tuple(
        (min(before, zeros[0]), min(after, zeros[1])) for (before, after), zeros in zip(reach, counted, strict=True)
    )
    for axis, amounts in enumerate(counted):
        x = padded_along(x, 2 + axis, amounts, 0.0)
    pairs = zip(reach, counted, strict=True)
    beyond = tuple((before - zeros[0], after - zeros[1]) for (before, after), zeros in pairs)
    return mb.avg_pool(
        x=x,
        kernel_sizes=list(windows.sizes),
        strides=list(windows.strides),
        pad_type="custom",
        pad=flat(beyond),
        exclude_padding_from_average=True,
    )


def over_taps(x: Var, windows: Windows, reach: Padding, fill: float, combine: Callable[..., Var]) -> Var:
    """Pool by combining one slice for each element of the window, one dimension after the other.

    This works for windows with holes, which Core ML's pooling does not have, if ``combine`` is associative and
    commutative.
    """
    for axis, size in enumerate(windows.sizes):
        slices = taps(padded_along(x, 2 + axis, reach[axis], fill), 2 + axis, windows, axis)
        x = next(slices)
        for _ in range(size - 1):
            x = combine(x=x, y=next(slices))
    return x


def padded_along(x: Var, axis: int, amounts: tuple[int, int], fill: float) -> Var:
    """The tensor with elements of one value before and after it along an axis."""
    if not any(amounts):
        return x
    pad = [0] * (2 * x.rank)
    pad[2 * axis : 2 * axis + 2] = amounts
    return mb.pad(x=x, pad=pad, mode="constant", constant_val=np.float32(fill))


def taps(x: Var, axis: int, windows: Windows, dimension: int) -> Iterator[Var]:
    """Yields, for each element of the window along an axis of the padded x, the elements that it meets as it slides.

    Raises:
        Unsupported: The size along the axis is open.
    """
    if not isinstance(x.shape[axis], int | np.integer):
        raise Unsupported("pools an open size by windows with holes", FIX_SIZES)
    stride, extent = windows.strides[dimension], windows.extents[dimension]
    count = (x.shape[axis] - extent) // stride + 1
    for tap in range(windows.sizes[dimension]):
        start = tap * windows.dilations[dimension]
        begin, end, step = [0] * x.rank, [0] * x.rank, [1] * x.rank
        begin[axis], end[axis], step[axis] = start, start + (count - 1) * stride + 1, stride
        others = [other != axis for other in range(x.rank)]
        yield mb.slice_by_index(x=x, begin=begin, end=end, stride=step, begin_mask=others, end_mask=others)


def elements_in_windows(windows: Windows, spatial: Sequence[int], reach: Padding, counted: Padding) -> np.ndarray:
    """Number of elements of each window that lie in the input or in its ``counted`` padding: [*windows]."""
    counts = np.ones((1,) * len(spatial))
    for axis, (size, ends, around) in enumerate(zip(spatial, reach, counted, strict=True)):
        starts = np.arange((size + sum(ends) - windows.extents[axis]) // windows.strides[axis] + 1)
        first = starts * windows.strides[axis] - ends[0]
        reached = first[:, None] + np.arange(windows.sizes[axis]) * windows.dilations[axis]
        along = np.sum((reached >= -around[0]) & (reached < size + around[1]), axis=1)
        counts = counts * along.reshape([-1 if other == axis else 1 for other in range(len(spatial))])
    return counts


def positions_of_maxima(x: Var, sizes: Sequence[int], windows: Windows, reach: Padding, *, column_major: bool) -> Var:
    """The index in the flattened x [n, C, *D], whose ``sizes`` are [C, *D], of each window's first maximum.

    The windows' elements are placed side by side; the index of the greatest among them gives the place in the window,
    which a table turns into an offset in the tensor.
    """
    channels, *spatial = sizes
    planes = _times(size_of(x, 0), channels)
    counts = windows.counts(spatial, reach)
    layers = [x]
    for axis, amounts in enumerate(reach):
        layers = [
            piece
            for layer in layers
            for piece in taps(padded_along(layer, 2 + axis, amounts, -np.inf), 2 + axis, windows, axis)
        ]
    side_by_side = [mb.reshape(x=layer, shape=[or_rest(planes), int(np.prod(counts)), 1]) for layer in layers]
    chosen = mb.reduce_argmax(x=mb.concat(values=side_by_side, axis=2), axis=2, keep_dims=False)
    steps = np.cumprod([1, *spatial[:-1]]) if column_major else np.cumprod([1, *spatial[:0:-1]])[::-1]
    within = table_of_offsets([np.arange(s) * d for s, d in zip(windows.sizes, windows.dilations, strict=True)], steps)
    starts = [np.arange(c) * s - r[0] for c, s, r in zip(counts, windows.strides, reach, strict=True)]
    first = table_of_offsets(starts, steps)[None].astype(np.int32)
    numbers, elements = runtime_shapes.counted(planes), np.int32(np.prod(spatial))
    if isinstance(numbers, np.ndarray):
        places = first + numbers[:, None] * elements
    else:
        places = mb.add(x=mb.mul(x=mb.expand_dims(x=numbers, axes=[1]), y=elements), y=first)
    offsets = mb.gather(x=within.astype(np.int32), indices=chosen, axis=0)
    return mb.reshape(x=mb.add(x=offsets, y=places), shape=[or_rest(x.shape[0]), channels, *counts])


def _times(size: Any, factor: int) -> Any:
    """A size in the form of :func:`size_of`, multiplied."""
    return int(size) * factor if is_number(size) else mb.mul(x=size, y=np.int32(factor))


def table_of_offsets(along: Sequence[np.ndarray], steps: np.ndarray) -> np.ndarray:
    """Offsets of all combinations of coordinates, flattened with the last dimension fastest."""
    grid = np.meshgrid(*along, indexing="ij")
    return sum((axis * step for axis, step in zip(grid, steps, strict=True)), np.zeros((), np.int64)).reshape(-1)
