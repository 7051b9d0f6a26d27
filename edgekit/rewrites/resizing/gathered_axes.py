"""An axis that ``Resize`` gives another size at run time: gathers of the elements around computed coordinates."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loops.values import Size, source
from edgekit.graph.loops.vector_elements import Element, elements_of
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError
from edgekit.rewrites.cubic_kernel import OFFSETS, four_weights

FLOAT = ir.DataType.FLOAT
INT64 = ir.DataType.INT64
Number = ir.Value | np.ndarray | np.generic
HALF = np.float32(0.5)
_TIE = np.float32(1e-6)
"""A coordinate this near to the middle between two elements lies there, apart from rounding in its computation."""


@dataclass(frozen=True)
class GatheredAxis:
    """One axis that is resized, of an input of some rank."""

    build: NodeBuilder
    axis: int
    rank: int
    last: Number
    """The greatest index along the axis, as a floating-point number."""
    count: ir.Value | int
    """How many elements the output has along the axis; a list of one number if that is computed."""

    def steps(self) -> Number:
        """Returns the numbers of the output elements, from 0."""
        if isinstance(self.count, int):
            return np.arange(self.count, dtype=np.float32)
        numbers = self.build("Range", np.int64(0), self.build.squeeze(self.count, [0]), np.int64(1))
        return self.build.cast(numbers, FLOAT)

    def gaps(self) -> Number:
        """Returns how many gaps lie between the output elements; 1 if there is none."""
        if isinstance(self.count, int):
            return np.float32(max(self.count - 1, 1))
        build = self.build
        return build("Max", build("Sub", build.cast(self.count, FLOAT), np.float32(1)), np.float32(1))

    def nearest(self, place: ir.Value, rounding: str) -> ir.Value:
        """Returns the index of the element that each output element repeats.

        Args:
            place: Coordinates inside the input.
            rounding: ``nearest_mode``.

        Raises:
            InapplicableError: There is no such mode.
        """
        build = self.build
        if rounding in ("floor", "ceil"):
            return build.cast(build(rounding.title(), place), INT64)
        below = build("Floor", place)
        share = build("Sub", place, below)
        if rounding == "round_prefer_floor":
            rounded = build("Ceil", build("Sub", share, HALF + _TIE))
        elif rounding == "round_prefer_ceil":
            rounded = build("Floor", build("Add", share, HALF + _TIE))
        else:
            raise InapplicableError(f"unknown nearest_mode {rounding!r}")
        return build.cast(build("Add", below, rounded), INT64)

    def weighed(self, x: ir.Value, place: ir.Value, dtype: np.dtype) -> ir.Value:
        """Returns sums of the elements on both sides of each coordinate, of which the nearer one weighs more."""
        build, kind = self.build, ir.DataType.from_numpy(dtype)
        below = build("Floor", place)
        above = build("Min", build("Add", below, np.float32(1)), self.last)
        share = build("Sub", place, below)
        parts = []
        for index, weight in ((below, build("Sub", np.float32(1), share)), (above, share)):
            part = build("Gather", x, build.cast(index, INT64), axis=self.axis)
            weight = weight if kind == FLOAT else build.cast(weight, kind)
            parts.append(build("Mul", part, self.in_shape(weight)))
        return build("Add", *parts)

    def convolved(self, x: ir.Value, place: Number, dtype: np.dtype, a: float, *, excludes: bool) -> ir.Value:
        """Returns sums of the four elements around each coordinate, weighted by the kernel of cubic convolution.

        Args:
            x: The input.
            place: Coordinates, which may lie outside the input.
            dtype: The input's type.
            a: The kernel's coefficient.
            excludes: Whether elements outside have no weight (``exclude_outside``); if not, the element at the border
                replaces them.
        """
        build, kind, first = self.build, ir.DataType.from_numpy(dtype), np.float32(0)
        below = build("Floor", place)
        indices = [build("Add", below, np.float32(offset)) for offset in OFFSETS]
        inside = [build("Max", build("Min", index, self.last), first) for index in indices]
        weights = four_weights(build, build("Sub", place, below), np.dtype(np.float32), a)
        if excludes:
            counts = [build.cast(build("Equal", *pair), FLOAT) for pair in zip(indices, inside, strict=True)]
            weights = [build("Mul", *pair) for pair in zip(weights, counts, strict=True)]
            total = functools.reduce(lambda one, other: build("Add", one, other), weights)
            weights = [build("Div", weight, total) for weight in weights]
        parts = []
        for index, weight in zip(inside, weights, strict=True):
            part = build("Gather", x, build.cast(index, INT64), axis=self.axis)
            parts.append(build("Mul", part, self.in_shape(weight if kind == FLOAT else build.cast(weight, kind))))
        return functools.reduce(lambda one, other: build("Add", one, other), parts)

    def in_shape(self, along: ir.Value) -> ir.Value:
        """Returns a list with an element for each index of the axis, shaped to lie along that axis of the result."""
        behind = self.rank - 1 - self.axis
        return self.build.unsqueeze(along, list(range(1, 1 + behind))) if behind else along


def resized_axes(node: ir.Node, x: ir.Value) -> Sequence[int]:
    """Returns the axes that the elements of a Resize node's lists belong to.

    Raises:
        InapplicableError: The number of axes is not known, or sizes keep an aspect ratio and are not those of the
            lists.
    """
    if x.shape is None:
        raise InapplicableError("how many axes its input has is not known")
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise InapplicableError("its sizes keep an aspect ratio")
    rank = len(x.shape)
    return [axis % rank for axis in node.attributes.get_ints("axes", range(rank))]


def own_size(x: ir.Value, axis: int) -> Element:
    """Returns the size of a tensor along an axis, as :func:`elements_of` gives it."""
    assert x.shape is not None
    length = x.shape[axis]
    return length if isinstance(length, int) else Size(source(x), axis)


def wanted_size(node: ir.Node, axis: int, element: Element) -> Element:
    """Returns the size of the output along an axis: ``element`` if shape inference does not find it."""
    made = node.outputs[0].shape
    inferred = None if made is None else made[axis]
    return inferred if isinstance(inferred, int) else element


def length_of(build: NodeBuilder, x: ir.Value, axis: int) -> ir.Value | np.float32:
    """Returns the size of a tensor along an axis, as a float; a list of one if it is known only at run time."""
    length = own_size(x, axis)
    if isinstance(length, int):
        return np.float32(length)
    return build.cast(build.slice(build("Shape", x), [axis], [axis + 1], [0]), FLOAT)


def last_of(build: NodeBuilder, length: ir.Value | np.float32) -> ir.Value | np.float32:
    """Returns the greatest index of an axis, in the type and shape of its length."""
    return build("Sub", length, np.float32(1)) if isinstance(length, ir.Value) else length - np.float32(1)


def list_of(node: ir.Node, place: int, count: int, what: str) -> tuple[ir.Value, Sequence[Element]]:
    """Returns an input that is a list of numbers, and what its elements are.

    Raises:
        InapplicableError: The input is missing, or has another number of elements.
    """
    value = input_at(node, place)
    elements = None if value is None else elements_of(value)
    if value is None or elements is None or len(elements) != count:
        raise InapplicableError(f"its {what} are not given for each axis")
    return value, elements
