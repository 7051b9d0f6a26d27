"""``Resize`` to sizes known only at run time, as detectors do with pictures: coordinates at run time, and gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.cubic_kernel import SHARPNESS
from edgekit.rewrites.resizing.gathered_axes import (
    FLOAT,
    HALF,
    INT64,
    GatheredAxis,
    Number,
    last_of,
    length_of,
    list_of,
    own_size,
    resized_axes,
    wanted_size,
)

_TRANSFORMATIONS = frozenset(["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
_SCALES, _SIZES = 2, 3
"""The indices of two inputs, of which one is given."""


class GatheredResize(Rewrite):
    """Nearest, linear and cubic, by computed sizes or scales, for an input of any sizes.

    Coordinates are those of the ONNX specification in single precision. An axis whose size or scale shows that it does
    not change is left alone.
    """

    name: ClassVar[str] = "resize by gathers"
    op_types: ClassVar[Sequence[str]] = ("Resize",)
    versions: ClassVar[range] = range(11, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether the input's or the output's sizes are known only at run time; for fixed sizes there are tables."""
        transformation = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
        if transformation not in _TRANSFORMATIONS or not node.inputs or node.inputs[0] is None:
            return False
        shape = node.inputs[0].shape
        return shape is not None and not (shape.is_static() and constant_input(node, _given(node)) is not None)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """A gather along each axis for the nearest element, two or four for weighted sums."""
        x, dtype = typed(node.inputs[0])
        mode = node.attributes.get_string("mode", "nearest")
        if mode not in ("nearest", "linear", "cubic"):
            raise InapplicableError(f"unknown mode {mode!r}")
        if mode != "nearest" and not dtype.is_floating_point():
            raise InapplicableError("sums of integers leave the rounding open")
        excludes = node.attributes.get_int("exclude_outside", 0) != 0
        for option in ("antialias", *(["exclude_outside"] if mode != "cubic" else [])):
            if node.attributes.get_int(option, 0) != 0:
                raise InapplicableError(f"{option} at sizes that only a run tells")
        a = node.attributes.get_float("cubic_coeff_a", SHARPNESS)
        transformation = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
        rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
        result = x
        for axis in _axes(node, build, x):
            if mode == "cubic":
                place = axis.coordinates(transformation)
                result = axis.convolved(result, place, dtype.numpy(), a, excludes=excludes)
                continue
            place = axis.places(transformation)
            if mode == "nearest":
                result = build("Gather", result, axis.nearest(place, rounding), axis=axis.axis)
            else:
                result = axis.weighed(result, place, dtype.numpy())
        return [result if result is not x else build("Identity", x)]


@dataclass(frozen=True)
class _Axis(GatheredAxis):
    """One axis that gets another size."""

    factor: Number
    """Output elements per input element."""
    exact: Number | None
    """The exact number of elements by the scale, of which :attr:`count` is the whole part; None if sizes are given."""

    def places(self, transformation: str) -> ir.Value:
        """Returns each output element's coordinate in the input, at the border if it lies outside: [count]."""
        place = self.coordinates(transformation)
        return self.build("Max", self.build("Min", place, self.last), np.float32(0))

    def coordinates(self, transformation: str) -> Number:
        """Returns the specification's coordinates, in the order of its operations."""
        build, steps, none = self.build, self.steps(), np.float32(0)
        if transformation == "asymmetric":
            return build("Div", steps, self.factor)
        if transformation == "align_corners":
            gaps = self.gaps() if self.exact is None else _gaps_of_part(build, self.exact)
            return build("Div", build("Mul", steps, self.last), gaps)
        spread = build("Sub", build("Div", build("Add", steps, HALF), self.factor), HALF)
        if transformation == "half_pixel":
            return spread
        if isinstance(self.count, int):
            return spread if self.count > 1 else np.zeros(1, np.float32)
        return build("Where", build("Equal", self.count, [1]), none, spread)


def _gaps_of_part(build: NodeBuilder, exact: Number) -> Number:
    """Returns the gaps between ``exact`` elements, the last of which may be a part of one; 1 if there is none."""
    return build("Max", build("Sub", exact, np.float32(1)), np.float32(1))


def _given(node: ir.Node) -> int:
    """Returns the index of the input that gives the new sizes."""
    sizes = node.inputs[_SIZES] if len(node.inputs) > _SIZES else None
    is_empty = sizes is None or (sizes.shape is not None and list(sizes.shape) == [0])
    return _SCALES if is_empty else _SIZES


def _axes(node: ir.Node, build: NodeBuilder, x: ir.Value) -> Sequence[_Axis]:
    """Returns the axes that get another size.

    Raises:
        InapplicableError: Sizes and scales are not given, or not for every axis.
    """
    axes = resized_axes(node, x)
    place = _given(node)
    numbers, elements = list_of(node, place, len(axes), "sizes" if place == _SIZES else "scales")
    found: list[_Axis] = []
    for number, (axis, element) in enumerate(zip(axes, elements, strict=True)):
        by_scale = place == _SCALES
        wanted = wanted_size(node, axis, None if by_scale else element)
        if element == 1 if by_scale else wanted == own_size(x, axis):
            continue
        length, one = length_of(build, x, axis), build.slice(numbers, [number], [number + 1], [0])
        count: ir.Value | int
        factor: Number
        exact: Number | None = None
        if by_scale:
            factor = np.float32(element) if isinstance(element, int | float) else one
            exact = build("Mul", length, factor)
            count = wanted if isinstance(wanted, int) else build.cast(_list(build, build("Floor", exact)), INT64)
        else:
            count = wanted if isinstance(wanted, int) else build.cast(one, INT64)
            factor = _ratio(build, count, length)
        last = last_of(build, length)
        rank = len(x.shape or ())
        found.append(_Axis(build=build, axis=axis, rank=rank, last=last, count=count, factor=factor, exact=exact))
    return found


def _ratio(build: NodeBuilder, count: ir.Value | int, length: ir.Value | np.float32) -> Number:
    """Returns the number of output elements per input element, from given sizes."""
    if isinstance(count, int):
        whole = np.float32(count)
        return build("Div", whole, length) if isinstance(length, ir.Value) else whole / length
    return build("Div", build.cast(count, FLOAT), length)


def _list(build: NodeBuilder, number: ir.Value) -> ir.Value:
    """Returns a number as a list of one, whatever shape it has."""
    return build("Reshape", number, [1])
