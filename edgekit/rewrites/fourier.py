"""Fourier transforms as products with a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.fourier_tables import TwoSteps, mirrored, two_steps
from edgekit.graph.nodes import constant_input, input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import kept_sizes, rank_of, size_along, typed

MOST_CELLS = 1 << 23
"""The most numbers of a table; a transform of 1024 complex numbers has 4 M."""
AXIS_IS_AN_INPUT = 20


class WholeTransform(Rewrite):
    """``DFT`` along axis 1 with all of its numbers, for runtimes that have only that form.

    One-sided transforms are cut out of the whole one; inverse one-sided ones are made whole first, by the symmetry of a
    real signal's spectrum.
    """

    name: ClassVar[str] = "whole Fourier transform along axis 1"
    op_types: ClassVar[Sequence[str]] = ("DFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a constant axis and a constant length."""
        transform = _Transform(node, build.opset)
        is_along_one = transform.axis == 1
        if is_along_one and not transform.onesided:
            raise InapplicableError("it is one")
        if transform.length & (transform.length - 1) and transform.cells <= MOST_CELLS:
            raise InapplicableError("a table is faster where the length is no power of two")
        to_front = [0, transform.axis, *(place for place in range(1, transform.rank) if place != transform.axis)]
        x = transform.x if is_along_one else build("Transpose", transform.x, perm=to_front)
        if transform.inverse and transform.onesided:
            x = _both_sides(build, x, transform)
        found = _along_axis_one(build, x, transform.length, inverse=transform.inverse)
        if transform.onesided:
            outs, axis = (1, -1) if transform.inverse else (transform.outs, 1)
            found = build("Slice", found, [0], [outs], [axis])
        back = [int(place) for place in np.argsort(to_front)]
        return [found if is_along_one else build("Transpose", found, perm=back)]


class TwoStepTransform(Rewrite):
    """``DFT`` of many numbers as two matrix products (:mod:`edgekit.graph.fourier_tables`)."""

    name: ClassVar[str] = "Fourier transform in two steps"
    op_types: ClassVar[Sequence[str]] = ("DFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a constant axis, whose numbers are cut or padded to the length."""
        transform = _Transform(node, build.opset)
        from_half = transform.inverse and transform.onesided
        steps = two_steps(
            transform.length, 2 if from_half else transform.parts, inverse=transform.inverse, is_real=from_half
        )
        if steps is None or steps.cells > transform.cells // 2 or steps.cells > MOST_CELLS:
            raise InapplicableError("one table has as few numbers")
        order = [place for place in range(transform.rank - 1) if place != transform.axis]
        order += [transform.axis, transform.rank - 1]
        is_moved = order != list(range(transform.rank))
        x = build("Transpose", transform.x, perm=order) if is_moved else transform.x
        others = kept_sizes(transform.x, order[:-2])
        if others.count(0) > 1:
            raise InapplicableError("several sizes of its input are not fixed")
        x = build("Reshape", x, [-1, transform.given, transform.parts])
        if from_half:
            x = _both_sides(build, x, transform)
        elif transform.given > transform.length:
            x = build("Slice", x, [0], [transform.length], [1])
        elif transform.given < transform.length:
            x = build("Pad", x, [0, 0, 0, 0, transform.length - transform.given, 0])
        result = _in_two_steps(build, x, steps, transform.dtype.numpy())
        if transform.onesided and not transform.inverse:
            result = build("Slice", result, [0], [transform.outs], [1])
        others = [size or -1 for size in others]
        result = build("Reshape", result, [*others, transform.outs, 1 if from_half else 2])
        return [build("Transpose", result, perm=[int(place) for place in np.argsort(order)]) if is_moved else result]


def _in_two_steps(build: NodeBuilder, x: ir.Value, steps: TwoSteps, dtype: np.dtype[Any]) -> ir.Value:
    """Returns the transform of x [others, numbers, parts], with all its numbers along the second axis."""
    rows, columns = steps.counts
    parts, outputs = steps.columns.shape[0] // rows, steps.rows.shape[2] // columns
    apart = build("Reshape", x, [-1, rows, columns, parts])
    by_column = build("Reshape", build("Transpose", apart, perm=[0, 2, 3, 1]), [-1, columns, parts * rows])
    first = build("MatMul", by_column, steps.columns.astype(dtype))
    turned = build("Transpose", build("Reshape", first, [-1, columns, 2, rows]), perm=[3, 0, 2, 1])
    second = build("MatMul", build("Reshape", turned, [rows, -1, 2 * columns]), steps.rows.astype(dtype))
    in_order = build("Transpose", build("Reshape", second, [rows, -1, outputs, columns]), perm=[1, 3, 0, 2])
    return build("Reshape", in_order, [-1, rows * columns, outputs])


class TabledTransform(Rewrite):
    """``DFT`` as one matrix product, since it is linear in its input."""

    name: ClassVar[str] = "Fourier transform by a table"
    op_types: ClassVar[Sequence[str]] = ("DFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a constant axis of a known size, and a constant length."""
        transform = _Transform(node, build.opset)
        x, axis, length = transform.x, transform.axis, transform.length
        rank, given, parts = transform.rank, transform.given, transform.parts
        if transform.cells > MOST_CELLS:
            raise InapplicableError(f"a transform of {length} numbers is too long for a table")
        table = _table(given, parts, length, inverse=transform.inverse, onesided=transform.onesided)
        table = table.astype(transform.dtype.numpy())
        outs, out_parts = table.shape[2:]
        order = [place for place in range(rank) if place not in (axis, rank - 1)] + [axis, rank - 1]
        is_moved = order != list(range(rank))
        moved = build("Transpose", x, perm=order) if is_moved else x
        others = kept_sizes(x, order[:-2])
        flat = build("Reshape", moved, [*others, given * parts])
        product = build("MatMul", flat, table.reshape(given * parts, outs * out_parts))
        result = build("Reshape", product, [*others, outs, out_parts])
        return [build("Transpose", result, perm=[int(place) for place in np.argsort(order)]) if is_moved else result]


class _Transform:
    """The parameters of a ``DFT`` node whose input has a known size along the transform's axis."""

    def __init__(self, node: ir.Node, opset: int) -> None:
        self.x, self.dtype = typed(node.inputs[0])
        self.rank = rank_of(self.x)
        self.inverse = node.attributes.get_int("inverse", 0) == 1
        self.onesided = node.attributes.get_int("onesided", 0) == 1
        axis = _number(node, 2, -2) if opset >= AXIS_IS_AN_INPUT else node.attributes.get_int("axis", 1)
        self.axis = axis % self.rank
        self.given, self.parts = size_along(self.x, self.axis), size_along(self.x, -1)
        self.length = _number(node, 1, 2 * (self.given - 1) if self.inverse and self.onesided else self.given)

    @property
    def outs(self) -> int:
        """How many numbers the transform gives along its axis."""
        return self.length if self.inverse or not self.onesided else self.length // 2 + 1

    @property
    def cells(self) -> int:
        """How many numbers a table of the transform has."""
        return self.given * self.parts * self.outs * (1 if self.inverse and self.onesided else 2)


def _along_axis_one(build: NodeBuilder, x: ir.Value, length: int, *, inverse: bool) -> ir.Value:
    if build.opset >= AXIS_IS_AN_INPUT:
        return build("DFT", x, length, 1, inverse=1 if inverse else None)
    return build("DFT", x, length, axis=1, inverse=1 if inverse else None)


def _both_sides(build: NodeBuilder, x: ir.Value, transform: _Transform) -> ir.Value:
    """Returns the whole spectrum of a real signal, along axis 1: the second half mirrors the first."""
    given, length = transform.given, transform.length
    half = length // 2 + 1
    if given < half or transform.parts == 1:
        raise InapplicableError(f"{given} numbers of {transform.parts} parts are given of a spectrum of {half}")
    if given > half:
        x = build("Slice", x, [0], [half], [1])
    if length < 3:
        return x
    signs = np.array([1, -1], transform.dtype.numpy())
    conjugate = build("Mul", build("Gather", x, mirrored(length), axis=1), signs)
    return build("Concat", x, conjugate, axis=1)


class FramedTransform(Rewrite):
    """``STFT`` as a convolution with a table that includes the window; the stride is the step between frames."""

    name: ClassVar[str] = "short-time Fourier transform as a convolution"
    op_types: ClassVar[Sequence[str]] = ("STFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a signal of any size, a constant window and constant steps."""
        signal, dtype = typed(node.inputs[0])
        if signal.shape is None:
            raise InapplicableError("the rank of its input is not known")
        _, size, parts = (*signal.shape, 1)[:3]
        step, window = constant_input(node, 1), constant_input(node, 2)
        if step is None or (window is None and len(node.inputs) > 2 and node.inputs[2] is not None):
            raise InapplicableError("its step or its window is computed")
        length = _number(node, 3, (size if isinstance(size, int) else 0) if window is None else len(window))
        if length == 0 or not isinstance(parts, int):
            raise InapplicableError("the shape of its input is not fixed")
        if window is not None and len(window) != length:
            raise InapplicableError(f"its window has {len(window)} numbers, and its frames {length}")
        onesided = node.attributes.get_int("onesided", 1) == 1
        if length * parts * 2 * (length // 2 + 1 if onesided else length) > MOST_CELLS:
            raise InapplicableError(f"a transform of {length} numbers is too long for a table")
        table = _table(length, parts, length, inverse=False, onesided=onesided)
        if window is not None:
            table *= window.astype(np.float64)[:, None, None, None]
        bins, out_parts = table.shape[2:]
        kernels = table.transpose(2, 3, 1, 0).reshape(bins * out_parts, parts, length).astype(dtype.numpy())
        rank = len(signal.shape)
        first = build.unsqueeze(signal, [1]) if rank == 2 else build("Transpose", signal, perm=[0, 2, 1])
        found = build("Conv", first, kernels, strides=[int(step.item())])
        # a size of 0 keeps that of the tensor that is reshaped
        return [build("Reshape", build("Transpose", found, perm=[0, 2, 1]), [0, 0, bins, out_parts])]


def _number(node: ir.Node, place: int, default: int) -> int:
    value = input_at(node, place)
    found = constant_input(node, place)
    if value is not None and found is None:
        raise InapplicableError(f"its input {value.name!r} is computed")
    return default if found is None else int(found.item())


def _table(given: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> np.ndarray:
    """Returns how each output depends on each input: [given, parts, outputs, parts of an output], float64.

    These are the transforms of the unit vectors; inputs beyond ``length`` are cut off, and missing ones are zero.
    """
    outs = length if inverse or not onesided else length // 2 + 1
    out_parts = 1 if inverse and onesided else 2
    units = np.eye(given)
    table = np.zeros((given, parts, outs, out_parts))
    for part in range(parts):
        signal = units * (1j if part else 1)
        if inverse and onesided:
            table[:, part, :, 0] = np.fft.irfft(signal, n=length, axis=-1)
            continue
        transformed = (np.fft.ifft if inverse else np.fft.fft)(signal, n=length, axis=-1)[:, :outs]
        table[:, part, :, 0], table[:, part, :, 1] = transformed.real, transformed.imag
    return table
