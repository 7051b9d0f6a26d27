"""Padding and centered cropping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, INT32_RANGE, Unsupported, Value, computed, to_carrier
from edgekit_mil.ops.standard.slicing import sliced
from edgekit_mil.support.high_ranks import one_axis_at_a_time
from edgekit_mil.support.movement import empty, normalized_axis, through_int32
from edgekit_mil.support.runtime_shapes import is_number, of_sizes, size_of, vector

NUMPY_MODES: dict[str, Literal["reflect", "edge", "wrap"]] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
MIL_MODES = {"reflect": "reflect", "edge": "replicate"}
MIL_RANKS_WITH_MODES = 2
"""MIL pads at most the last two dimensions in other modes than constant."""


@lowering("Pad", versions=[2])
def pad_by_attributes(
    ctx: Context, x: Value, *, pads: list[int], mode: str = "constant", value: float = 0.0
) -> Var | Value:
    """Pads by amounts from an attribute."""
    return padded(x, pads, range(x.rank), mode, np.asarray(value, np.float32))


@lowering(
    "Pad", versions=[11, 13, 18, 19, 21, 23, 24, 25], note="axes constant; pads too, but for mode constant of floats"
)
def pad(
    ctx: Context,
    x: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Var | Value:
    """Pads by amounts from an input, along the given axes."""
    along = [normalized_axis(axis, x.rank) for axis in axes.ints("axes")] if axes is not None else range(x.rank)
    if not pads.is_constant and mode == "constant" and x.is_float:
        return padded_by_computed_amounts(x, pads, along, constant_value)
    amounts = pads.ints("pads")
    if constant_value is not None and constant_value.constant is None and mode == "constant":
        return padded_at_run_time(x, amounts, along, constant_value)
    known = constant_value.constant if constant_value is not None else None
    return padded(x, amounts, along, mode, np.zeros((), np.float32) if known is None else known.reshape(()))


def padded_at_run_time(x: Value, pads: Sequence[int], axes: Sequence[int], filling: Value) -> Var | Value:
    """Margins of a number that the program computes, selected by a constant mask."""
    zero = np.zeros((), np.float32)
    with_zeros = padded(x, pads, axes, "constant", zero)
    if isinstance(with_zeros, Value):
        return with_zeros
    before, after = margins(x.rank, pads, axes)
    inner = np.zeros(cropped(x, before, after).static_shape, np.bool_)
    widths = [(max(low, 0), max(high, 0)) for low, high in zip(before, after, strict=True)]
    number = mb.squeeze(x=filling.var) if filling.rank else filling.var
    return mb.select(cond=np.pad(inner, widths, constant_values=True), a=number, b=with_zeros)


def padded_by_computed_amounts(x: Value, pads: Value, axes: Sequence[int], filling: Value | None) -> Var:
    """Margins whose widths the program computes; negative ones crop."""
    number = np.zeros((), np.float32) if filling is None else filling.require_constant("the number to pad with")
    amounts = mb.reshape(x=pads.var, shape=[2, len(axes)])
    if list(axes) != list(range(x.rank)):
        columns = [
            mb.slice_by_size(x=amounts, begin=[0, axes.index(axis)], size=[2, 1])
            if axis in axes
            else np.zeros((2, 1), np.int32)
            for axis in range(x.rank)
        ]
        amounts = mb.concat(values=columns, axis=1)
    added = mb.maximum(x=amounts, y=0)
    taken = mb.sub(x=added, y=amounts)
    before, after = (mb.squeeze(x=part, axes=[0]) for part in mb.split(x=taken, num_splits=2, axis=0))
    kept = mb.slice_by_index(x=x.var, begin=before, end=mb.sub(x=mb.shape(x=x.var), y=after))
    in_pairs = mb.reshape(x=mb.transpose(x=added, perm=[1, 0]), shape=[-1])
    return mb.pad(x=kept, pad=in_pairs, mode="constant", constant_val=np.float32(number.reshape(())))


def margins(rank: int, pads: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The amounts of padding before and after every dimension."""
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[place + len(axes)]
    return before, after


def padded(x: Value, pads: Sequence[int], axes: Sequence[int], mode: str, filling: np.ndarray) -> Var | Value:
    """A tensor with margins; negative ones crop."""
    before, after = margins(x.rank, pads, axes)
    if x.rank > HIGHEST_RANK:

        def along(low: Value, place: int, axis: int) -> Value:
            result = padded(low, [before[axis], after[axis]], [place], mode, filling)
            return result if isinstance(result, Value) else computed(result, x.dtype)

        return one_axis_at_a_time(x, [axis for axis in range(x.rank) if before[axis] or after[axis]], along)
    if mode != "constant":
        return mirrored(x, before, after, mode)
    if any(amount < 0 for amount in (*before, *after)):
        x = cropped(x, before, after)
        before, after = ([max(amount, 0) for amount in amounts] for amounts in (before, after))
    if x.is_static and 0 in x.shape:
        shape = [size + low + high for size, low, high in zip(x.static_shape, before, after, strict=True)]
        return empty(x.dtype, shape) if 0 in shape else computed(filled(x, shape, filling), x.dtype)
    if not any(before) and not any(after):
        return mb.identity(x=x.var)
    if x.is_float:
        amounts = [amount for pair in zip(before, after, strict=True) for amount in pair]
        return mb.pad(x=x.var, pad=amounts, mode="constant", constant_val=np.float32(filling))
    return with_margins(x, before, after, filling)


def filled(x: Value, shape: Sequence[int], filling: np.ndarray) -> Var:
    """A constant tensor of one number.

    Raises:
        Unsupported: An integer does not fit int32.
    """
    return mb.const(val=to_carrier(np.full(tuple(shape), filling), x.dtype))


def with_margins(x: Value, before: Sequence[int], after: Sequence[int], filling: np.ndarray) -> Var:
    """Adds margins by concatenation, axis by axis: MIL pads floats only."""
    var = x.var
    for axis, amounts in enumerate(zip(before, after, strict=True)):
        low, high = (_margin(x, var, axis, amount, filling) if amount else None for amount in amounts)
        parts = [part for part in (low, var, high) if part is not None]
        if len(parts) > 1:
            var = mb.concat(values=parts, axis=axis)
    return var


def _margin(x: Value, var: Var, axis: int, amount: int, filling: np.ndarray) -> Var:
    """A tensor of one number as large as ``var``, but for an axis, along which it has ``amount`` elements."""
    shape = [amount if dim == axis else size for dim, size in enumerate(var.shape)]
    if all(map(is_number, shape)):
        return filled(x, [int(size) for size in shape], filling)
    sizes = [amount if dim == axis else size_of(var, dim) for dim in range(x.rank)]
    return of_sizes(mb.fill(shape=vector(sizes), value=to_carrier(filling, x.dtype)), shape)


def cropped(x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """Crops by the negative amounts; the others are ignored."""
    starts = [max(-amount, 0) for amount in before]
    ends = [amount if amount < 0 else INT32_RANGE[1] for amount in after]
    result = sliced(x, starts, ends, None, None)
    return result if isinstance(result, Value) else computed(result, x.dtype)


def mirrored(x: Value, before: Sequence[int], after: Sequence[int], mode: str) -> Var:
    """Margins that repeat the tensor's own elements: by MIL's operation if it can, else by gathering."""
    if mode not in NUMPY_MODES:
        raise Unsupported(f"mode {mode!r}")
    if min(*before, *after) < 0:
        x = cropped(x, before, after)
        before, after = ([max(amount, 0) for amount in margin] for margin in (before, after))
    padded_axes = [axis for axis in range(x.rank) if before[axis] or after[axis]]
    if not padded_axes:
        return mb.identity(x=x.var)
    amounts = [amount for pair in zip(before, after, strict=True) for amount in pair]
    # Whether an open size is large enough is only known at run time, as in ONNX.
    small = all(not is_number(x.shape[axis]) or max(before[axis], after[axis]) < x.shape[axis] for axis in padded_axes)
    in_reach = padded_axes[0] >= x.rank - MIL_RANKS_WITH_MODES
    if x.is_float and mode in MIL_MODES and small and in_reach and x.rank > MIL_RANKS_WITH_MODES:
        last = amounts[-2 * MIL_RANKS_WITH_MODES :]
        return mb.pad(x=x.var, pad=last, mode=MIL_MODES[mode])
    if x.is_float and mode in MIL_MODES and small and in_reach:  # MIL needs a higher rank
        lacking = list(range(MIL_RANKS_WITH_MODES + 1 - x.rank))
        last = [0] * (2 * MIL_RANKS_WITH_MODES - len(amounts)) + amounts
        return mb.squeeze(
            x=mb.pad(x=mb.expand_dims(x=x.var, axes=lacking), pad=last, mode=MIL_MODES[mode]), axes=lacking
        )
    sizes = dict(zip(padded_axes, x.static_sizes(padded_axes), strict=True))

    def gather(var: Var) -> Var:
        for axis in padded_axes:
            places = positions(sizes[axis], before[axis], after[axis], mode)
            var = mb.gather(x=var, indices=places, axis=axis)
        return var

    return through_int32(x, gather)


def positions(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """The index of the element at each place of a padded dimension."""
    indices: np.ndarray = np.pad(np.arange(size, dtype=np.int32), (before, after), mode=NUMPY_MODES[mode])
    return indices


@lowering("CenterCropPad", versions=[18], note="the shape constant")
def center_crop_pad(ctx: Context, x: Value, shape: Value, *, axes: list[int] | None = None) -> Var | Value:
    """Crops, or pads with 0, on both sides; if the difference is odd, by one more at the end."""
    along = range(x.rank) if axes is None else [normalized_axis(axis, x.rank) for axis in axes]
    before, after = [0] * x.rank, [0] * x.rank
    for axis, wanted in zip(along, shape.ints("the shape"), strict=True):
        difference = wanted - x.static_sizes([axis])[0]
        if difference < 0:  # the crop begins at half of the difference, rounded down
            before[axis] = -(-difference // 2)
        else:
            before[axis] = difference // 2
        after[axis] = difference - before[axis]
    return padded(x, [*before, *after], range(x.rank), "constant", np.zeros((), np.float32))
