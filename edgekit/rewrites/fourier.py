"""Fourier transforms as products with a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import constant_of, shape_of, typed

MOST_CELLS = 1 << 23
"""Of the table: a transform of 1024 complex numbers has 4 M."""
AXIS_IS_AN_INPUT = 20


class TabledTransform(Rewrite):
    """``DFT`` as one matrix product, which is linear in what it transforms."""

    name: ClassVar[str] = "Fourier transform by a table"
    op_types: ClassVar[Sequence[str]] = ("DFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Along a constant axis of a known size, to a constant length."""
        x, dtype = typed(node.inputs[0])
        sizes = shape_of(x)
        inverse = node.attributes.get_int("inverse", 0) == 1
        onesided = node.attributes.get_int("onesided", 0) == 1
        axis = _number(node, 2, -2) if build.opset >= AXIS_IS_AN_INPUT else node.attributes.get_int("axis", 1)
        axis %= len(sizes)
        given, parts = sizes[axis], sizes[-1]
        length = _number(node, 1, 2 * (given - 1) if inverse and onesided else given)
        table = _table(given, parts, length, inverse=inverse, onesided=onesided).astype(dtype.numpy())
        outs, out_parts = table.shape[2:]
        order = [place for place in range(len(sizes)) if place not in (axis, len(sizes) - 1)] + [axis, len(sizes) - 1]
        is_moved = order != list(range(len(sizes)))
        moved = build("Transpose", x, perm=order) if is_moved else x
        others = [sizes[place] for place in order[:-2]]
        flat = build("Reshape", moved, [*others, given * parts])
        product = build("MatMul", flat, table.reshape(given * parts, outs * out_parts))
        result = build("Reshape", product, [*others, outs, out_parts])
        return [build("Transpose", result, perm=[int(place) for place in np.argsort(order)]) if is_moved else result]


class FramedTransform(Rewrite):
    """``STFT`` as a convolution with a table that the window is part of, in steps from frame to frame."""

    name: ClassVar[str] = "short-time Fourier transform as a convolution"
    op_types: ClassVar[Sequence[str]] = ("STFT",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of a signal of a known size, with a constant window in constant steps."""
        signal, dtype = typed(node.inputs[0])
        sizes = shape_of(signal)
        batch, size, parts = (*sizes, 1)[:3]
        step, window = constant_of(node, 1), constant_of(node, 2)
        if step is None or (window is None and len(node.inputs) > 2 and node.inputs[2] is not None):
            raise InapplicableError("its step or its window is computed")
        length = _number(node, 3, size if window is None else len(window))
        frames = 1 + (size - length) // int(step.item())
        onesided = node.attributes.get_int("onesided", 1) == 1
        table = _table(length, parts, length, inverse=False, onesided=onesided)
        if window is not None:
            table *= window.astype(np.float64)[:, None, None, None]
        bins, out_parts = table.shape[2:]
        kernels = table.transpose(2, 3, 1, 0).reshape(bins * out_parts, parts, length).astype(dtype.numpy())
        first = build("Reshape", signal, [batch, 1, size]) if parts == 1 else build("Transpose", signal, perm=[0, 2, 1])
        found = build("Conv", first, kernels, strides=[int(step.item())])
        return [build("Reshape", build("Transpose", found, perm=[0, 2, 1]), [batch, frames, bins, out_parts])]


def _number(node: ir.Node, place: int, default: int) -> int:
    value = node.inputs[place] if place < len(node.inputs) else None
    found = constant_of(node, place)
    if value is not None and found is None:
        raise InapplicableError(f"its input {value.name!r} is computed")
    return default if found is None else int(found.item())


def _table(given: int, parts: int, length: int, *, inverse: bool, onesided: bool) -> np.ndarray:
    """What each output is made of: [given, parts, outputs, parts of an output], float64.

    The transform of each unit vector; what lies beyond ``length`` is cut off, what is missing is zero.
    """
    outs = length if inverse or not onesided else length // 2 + 1
    out_parts = 1 if inverse and onesided else 2
    if given * parts * outs * out_parts > MOST_CELLS:
        raise InapplicableError(f"a transform of {length} numbers is too long for a table")
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
