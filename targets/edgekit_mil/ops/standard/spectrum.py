"""DFT and STFT as products with constant matrices of cosines and sines; a long DFT takes two steps."""

from __future__ import annotations

import math

import numpy as np

from edgekit.graph.fourier_tables import TwoSteps, mirrored, two_steps
from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed
from edgekit_mil.ops.standard.matrices import product_along
from edgekit_mil.support.runtime_shapes import is_number

LONGEST = 4096
"""Elements of the longest transform: its matrices take 64 MB each, and those of a longer one more."""
LEAST_GAIN = 4
"""A transform is computed in two steps if their matrices have fewer numbers than those of one step by this factor."""


@lowering("DFT", versions=[17], note=f"constant dft_length of up to {LONGEST}")
def dft_along_attribute(
    ctx: Context, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Var:
    """Transforms along an axis from an attribute."""
    return transform(x, dft_length, axis, bool(inverse), bool(onesided))


@lowering("DFT", versions=[20], note=f"constant axis and dft_length of up to {LONGEST}")
def dft(
    ctx: Context,
    x: Value,
    dft_length: Value | None = None,
    axis: Value | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Var:
    """Transforms along an axis from an input."""
    return transform(x, dft_length, -2 if axis is None else axis.ints("axis")[0], bool(inverse), bool(onesided))


@lowering("STFT", versions=[17], note=f"constant frame_step, frame_length of up to {LONGEST}")
def stft(
    ctx: Context,
    signal: Value,
    frame_step: Value,
    window: Value | None = None,
    frame_length: Value | None = None,
    *,
    onesided: int = 1,
) -> Var:
    """Spectra [b, frames, bins, 2] of the windows of a signal [b, n, 1 or 2]: a convolution with cosines and sines.

    A signal [b, n] is treated as real, as in ONNX Runtime.
    """
    if signal.rank == 2:
        signal = computed(mb.expand_dims(x=signal.var, axes=[2]), signal.dtype)
    (parts,) = signal.static_sizes([2])
    (step,) = frame_step.ints("frame_step")
    if frame_length is not None:
        (length,) = frame_length.ints("frame_length")
    else:
        (length,) = signal.static_sizes([1]) if window is None else window.static_shape
    _require_short(length)
    bins = length // 2 + 1 if onesided else length
    cosines, sines = waves(bins, length, length)
    basis = [[cosines, sines], [-sines, cosines]] if parts == 2 else [[cosines], [-sines]]
    kernel = np.concatenate([np.stack(row, axis=1) for row in basis]).astype(np.float32)
    weight = kernel if window is None else windowed(kernel, window)
    spectra = mb.conv(x=mb.transpose(x=signal.var, perm=[0, 2, 1]), weight=weight, strides=[step], pad_type="valid")
    if all(map(is_number, signal.shape)):
        batch, _, frames = spectra.shape
        return mb.transpose(x=mb.reshape(x=spectra, shape=[batch, 2, bins, frames]), perm=[0, 3, 2, 1])
    real, imaginary = mb.split(x=mb.transpose(x=spectra, perm=[0, 2, 1]), num_splits=2, axis=2)
    return mb.stack(values=[real, imaginary], axis=3)


def windowed(kernel: np.ndarray, window: Value) -> np.ndarray | Var:
    """Waves [2 bins, parts, length] times a window [length]."""
    if window.constant is not None:
        return (kernel * np.asarray(window.constant)).astype(np.float32)
    return mb.mul(x=kernel, y=window.var)


def transform(x: Value, dft_length: Value | None, axis: int, inverse: bool, onesided: bool) -> Var:
    """The transform of x [..., 1 or 2], its real and imaginary parts side by side in the last axis.

    The inverse of a one-sided spectrum is real: its last axis has 1 element.
    """
    axis %= x.rank
    if axis == x.rank - 1:
        raise Unsupported("transforms along the axis of real and imaginary parts")
    size, parts_given = x.static_sizes([axis, x.rank - 1])
    if dft_length is not None:
        (length,) = dft_length.ints("dft_length")
    else:
        length = 2 * (size - 1) if inverse and onesided else size
    _require_short(length)
    from_half = inverse and onesided
    steps = two_steps(length, 2 if from_half else parts_given, inverse=inverse, is_real=from_half)
    bins = length if inverse or not onesided else length // 2 + 1
    can_be_one_batch = sum(not is_number(extent) for extent in x.shape) < 2
    if steps is not None and can_be_one_batch and steps.cells * LEAST_GAIN <= 2 * min(size, length) * bins:
        return _in_two_steps(x.var, axis, length, bins, steps, from_half)
    parts = [_part(x.var, index) for index in range(parts_given)]
    if from_half:
        kept = min(size, length // 2 + 1)
        cosines, sines = half_spectrum(length, kept)
        real = product_along(_cut(parts[0], axis, kept), cosines, axis)
        if len(parts) == 2:
            real = mb.add(x=real, y=product_along(_cut(parts[1], axis, kept), sines, axis))
        return mb.expand_dims(x=real, axes=[-1])
    kept = min(size, length)
    cosines, sines = waves(bins, kept, length)
    if inverse:
        cosines, sines = cosines / length, -sines / length
    cosines, sines = cosines.astype(np.float32), sines.astype(np.float32)
    cut = [_cut(part, axis, kept) for part in parts]
    real, imaginary = product_along(cut[0], cosines, axis), product_along(cut[0], -sines, axis)
    if len(cut) == 2:
        real = mb.add(x=real, y=product_along(cut[1], sines, axis))
        imaginary = mb.add(x=imaginary, y=product_along(cut[1], cosines, axis))
    return mb.stack(values=[real, imaginary], axis=-1)


def _in_two_steps(x: Var, axis: int, length: int, bins: int, steps: TwoSteps, from_half: bool) -> Var:
    """The first bins of a transform, or the signal of half a spectrum, in two steps; at most one size is open."""
    order = [place for place in range(x.rank - 1) if place != axis] + [axis, x.rank - 1]
    is_moved = order != list(range(x.rank))
    x = mb.transpose(x=x, perm=order) if is_moved else x
    *others, size, parts = (int(extent) if is_number(extent) else -1 for extent in x.shape)
    batch = -1 if -1 in others else math.prod(others)
    x = mb.reshape(x=x, shape=[batch, size, parts])
    if from_half:
        x = _both_halves(x, length)
    elif size > length:
        x = _cut(x, 1, length)
    elif size < length:
        x = mb.pad(x=x, pad=[0, 0, 0, length - size, 0, 0])
    rows, columns = steps.counts
    parts, outputs = int(x.shape[2]), steps.rows.shape[2] // columns
    apart = mb.transpose(x=mb.reshape(x=x, shape=[-1, rows, columns, parts]), perm=[0, 2, 3, 1])
    by_column = mb.reshape(x=apart, shape=[-1, columns, parts * rows])
    first = mb.matmul(x=by_column, y=steps.columns.astype(np.float32))
    turned = mb.transpose(x=mb.reshape(x=first, shape=[-1, columns, 2, rows]), perm=[3, 0, 2, 1])
    second = mb.matmul(x=mb.reshape(x=turned, shape=[rows, -1, 2 * columns]), y=steps.rows.astype(np.float32))
    in_order = mb.transpose(x=mb.reshape(x=second, shape=[rows, -1, outputs, columns]), perm=[1, 3, 0, 2])
    found = _cut(mb.reshape(x=in_order, shape=[batch, length, outputs]), 1, bins)
    found = mb.reshape(x=found, shape=[*others, bins, outputs])
    return mb.transpose(x=found, perm=np.argsort(order).tolist()) if is_moved else found


def _both_halves(x: Var, length: int) -> Var:
    """The whole spectrum of ``length`` real numbers from its half [n, bins, 1 or 2]; missing bins are zero."""
    half = length // 2 + 1
    size, parts = int(x.shape[1]), int(x.shape[2])
    x = _cut(x, 1, half) if size > half else x
    if size < half or parts == 1:
        x = mb.pad(x=x, pad=[0, 0, 0, max(half - size, 0), 0, 2 - parts])
    mirror = mb.gather(x=x, indices=mirrored(length).astype(np.int32), axis=1)
    return mb.concat(values=[x, mb.mul(x=mirror, y=np.array([1, -1], np.float32))], axis=1)


def waves(bins: int, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [bins, count] of ``2 pi k n / length``; the angles are reduced as integers, which is exact."""
    angles = 2 * np.pi / length * (np.outer(np.arange(bins), np.arange(count)) % length)
    return np.cos(angles), np.sin(angles)


def half_spectrum(length: int, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices [length, kept] by which the real and the imaginary part of half a real signal's spectrum are multiplied.

    Every bin except the first and, for an even length, the last counts for its mirror image, too.
    """
    cosines, sines = waves(length, kept, length)
    bins = np.arange(kept)
    weights = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0) / length
    return (cosines * weights).astype(np.float32), (-sines * weights).astype(np.float32)


def _part(x: Var, index: int) -> Var:
    return mb.gather(x=x, indices=np.int32(index), axis=-1)


def _cut(x: Var, axis: int, kept: int) -> Var:
    """The first elements along an axis."""
    if x.shape[axis] == kept:
        return x
    masks = [place != axis for place in range(x.rank)]
    end = [0 if masked else kept for masked in masks]
    return mb.slice_by_index(x=x, begin=[0] * x.rank, end=end, end_mask=masks)


def _require_short(length: int) -> None:
    if length > LONGEST:
        raise Unsupported(f"a transform of {length} elements, at most {LONGEST} are supported")
