"""``Resize`` of a region that is computed: coordinates at run time, and gathers of what lies on both sides of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loop_values import Size, source
from edgekit.graph.vector_elements import Element, elements_of
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed

_FLOAT = ir.DataType.FLOAT
_INT64 = ir.DataType.INT64
_Number = ir.Value | np.ndarray | np.generic
_WHOLE = (0, 1)
"""Begin and end of the region that is all of an axis."""
_HALF = np.float32(0.5)


class GatheredCrop(Rewrite):
    """``tf_crop_and_resize``, nearest and linear, of any region of an input of any sizes.

    Coordinates are those of the ONNX specification in single precision. An axis along which the region is all and the
    size stays is left alone.
    """

    name: ClassVar[str] = "crop and resize by gathers"
    op_types: ClassVar[Sequence[str]] = ("Resize",)
    versions: ClassVar[range] = range(11, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether it crops."""
        return node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For output sizes that are given as such, computed or not."""
        x, dtype = typed(node.inputs[0])
        mode = node.attributes.get_string("mode", "nearest")
        if mode not in ("nearest", "linear"):
            raise InapplicableError(f"mode {mode!r}")
        if mode == "linear" and not dtype.is_floating_point():
            raise InapplicableError("sums of integers leave the rounding open")
        if node.attributes.get_int("antialias", 0) == 1:
            raise InapplicableError("a region is not smoothed")
        rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
        number = dtype.numpy()
        result, inside = x, None
        for axis in _axes(node, build, x):
            place, is_inside = axis.places()
            if mode == "nearest":
                result = build("Gather", result, axis.nearest(place, rounding), axis=axis.axis)
            else:
                result = axis.weighed(result, place, number)
            along = axis.in_shape(is_inside)
            inside = along if inside is None else build("And", inside, along)
        if inside is None:
            return [build("Identity", x)]
        value = np.asarray(node.attributes.get_float("extrapolation_value", 0.0), number)
        return [build("Where", inside, result, value)]


@dataclass(frozen=True)
class _Axis:
    """One axis that is cropped, of an input of some rank."""

    build: NodeBuilder
    axis: int
    rank: int
    last: _Number
    """Its greatest index, as a floating-point number."""
    count: ir.Value | int
    """How many elements it is to have; a list of one number where that is computed."""
    begin: _Number
    end: _Number
    """Where the region lies, as shares of ``last``; lists of one number."""

    def places(self) -> tuple[ir.Value, ir.Value]:
        """Where each output element lies in the input, 0 outside of it, and whether it lies inside: [count] each."""
        build, none = self.build, np.float32(0)
        place = self._coordinates()
        is_inside = build("Equal", build("Max", build("Min", place, self.last), none), place)
        return build("Where", is_inside, place, none), is_inside

    def _coordinates(self) -> ir.Value:
        """As the specification has them for ``tf_crop_and_resize``, in the order of its operations."""
        build = self.build
        if self.count == 1:
            return self._middle()
        steps, gaps = self._steps()
        extent = build("Mul", build("Mul", steps, build("Sub", self.end, self.begin)), self.last)
        spread = build("Add", build("Mul", self.begin, self.last), build("Div", extent, gaps))
        if isinstance(self.count, int):
            return spread
        return build("Where", build("Equal", self.count, [1]), self._middle(), spread)

    def _middle(self) -> ir.Value:
        """Where a single output element lies."""
        build = self.build
        return build("Mul", build("Mul", build("Add", self.begin, self.end), _HALF), self.last)

    def _steps(self) -> tuple[_Number, _Number]:
        """The output elements' numbers, and how many gaps lie between them; 1 where there is none."""
        build, count = self.build, self.count
        if isinstance(count, int):
            return np.arange(count, dtype=np.float32), np.float32(max(count - 1, 1))
        numbers = build("Range", np.int64(0), build.squeeze(count, [0]), np.int64(1))
        gaps = build("Max", build("Sub", build.cast(count, _FLOAT), np.float32(1)), np.float32(1))
        return build.cast(numbers, _FLOAT), gaps

    def nearest(self, place: ir.Value, rounding: str) -> ir.Value:
        """The index of the element that each output element repeats."""
        build = self.build
        if rounding == "round_prefer_floor":
            chosen = build("Ceil", build("Sub", place, _HALF))
        elif rounding == "round_prefer_ceil":
            chosen = build("Floor", build("Add", place, _HALF))
        elif rounding in ("floor", "ceil"):
            chosen = build(rounding.title(), place)
        else:
            raise InapplicableError(f"unknown nearest_mode {rounding!r}")
        return build.cast(chosen, _INT64)

    def weighed(self, x: ir.Value, place: ir.Value, dtype: np.dtype) -> ir.Value:
        """The sums of the elements on both sides of each place, the nearer one weighing more."""
        build, kind = self.build, ir.DataType.from_numpy(dtype)
        below = build("Floor", place)
        above = build("Min", build("Add", below, np.float32(1)), self.last)
        share = build("Sub", place, below)
        parts = []
        for index, weight in ((below, build("Sub", np.float32(1), share)), (above, share)):
            part = build("Gather", x, build.cast(index, _INT64), axis=self.axis)
            weight = weight if kind == _FLOAT else build.cast(weight, kind)
            parts.append(build("Mul", part, self.in_shape(weight)))
        return build("Add", *parts)

    def in_shape(self, along: ir.Value) -> ir.Value:
        """A list with an element for each index of the axis, so that it goes along that axis of the result."""
        behind = self.rank - 1 - self.axis
        return self.build.unsqueeze(along, list(range(1, 1 + behind))) if behind else along


def _axes(node: ir.Node, build: NodeBuilder, x: ir.Value) -> Sequence[_Axis]:
    """The axes that are cropped or get another size.

    Raises:
        InapplicableError: The region or the sizes are not given, or not for every axis.
    """
    if x.shape is None:
        raise InapplicableError("how many axes its input has is not known")
    if node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise InapplicableError("its sizes keep an aspect ratio")
    rank = len(x.shape)
    axes = [axis % rank for axis in node.attributes.get_ints("axes", range(rank))]
    roi, region = _list(node, 1, 2 * len(axes), "region")
    sizes, counts = _list(node, 3, len(axes), "sizes")
    made = node.outputs[0].shape
    found: list[_Axis] = []
    for number, axis in enumerate(axes):
        length = x.shape[axis]
        bounds = region[number], region[len(axes) + number]
        inferred = None if made is None else made[axis]
        wanted = inferred if isinstance(inferred, int) else counts[number]
        is_kept = wanted == (length if isinstance(length, int) else Size(source(x), axis))
        if bounds == _WHOLE and is_kept:
            continue
        begin, end = (
            np.array([bound], np.float32)
            if isinstance(bound, int | float)
            else build.cast(build.slice(roi, [place], [place + 1], [0]), _FLOAT)
            for bound, place in zip(bounds, (number, len(axes) + number), strict=True)
        )
        found.append(
            _Axis(
                build=build,
                axis=axis,
                rank=rank,
                last=np.float32(length - 1) if isinstance(length, int) else _last(build, x, axis),
                count=wanted if isinstance(wanted, int) else build.slice(sizes, [number], [number + 1], [0]),
                begin=begin,
                end=end,
            )
        )
    return found


def _last(build: NodeBuilder, x: ir.Value, axis: int) -> ir.Value:
    """The greatest index of an axis whose size shows at run time, as a list of one number."""
    length = build.slice(build("Shape", x), [axis], [axis + 1], [0])
    return build("Sub", build.cast(length, _FLOAT), np.float32(1))


def _list(node: ir.Node, place: int, count: int, what: str) -> tuple[ir.Value, Sequence[Element]]:
    """An input that is a list of numbers, with what its elements are.

    Raises:
        InapplicableError: It is not there, or has another number of elements.
    """
    value = node.inputs[place] if place < len(node.inputs) else None
    elements = None if value is None else elements_of(value)
    if value is None or elements is None or len(elements) != count:
        raise InapplicableError(f"its {what} are not given for each axis")
    return value, elements
