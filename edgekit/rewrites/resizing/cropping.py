"""``Resize`` of a region that is computed: coordinates at run time, and gathers of what lies on both sides of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.resizing.gathered_axes import (
    FLOAT,
    HALF,
    GatheredAxis,
    Number,
    last_of,
    length_of,
    list_of,
    own_size,
    resized_axes,
    wanted_size,
)

_WHOLE = (0, 1)
"""Begin and end of a region that covers the whole axis."""


class GatheredCrop(Rewrite):
    """``tf_crop_and_resize``, nearest and linear, of any region of an input of any sizes.

    Coordinates are those of the ONNX specification in single precision. An axis that the region covers, and whose size
    stays, is left alone.
    """

    name: ClassVar[str] = "crop and resize by gathers"
    op_types: ClassVar[Sequence[str]] = ("Resize",)
    versions: ClassVar[range] = range(11, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether the node crops."""
        return node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For output sizes that are given, computed or not, and not scales."""
        x, dtype = typed(node.inputs[0])
        mode = node.attributes.get_string("mode", "nearest")
        if mode not in ("nearest", "linear"):
            raise InapplicableError(f"mode {mode!r}")
        if mode == "linear" and not dtype.is_floating_point():
            raise InapplicableError("sums of integers leave the rounding open")
        if node.attributes.get_int("antialias", 0) != 0:
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
class _Axis(GatheredAxis):
    """One axis that is cropped."""

    begin: Number
    end: Number
    """Where the region lies, as shares of ``last``; lists of one number."""

    def places(self) -> tuple[ir.Value, ir.Value]:
        """Returns each output element's place in the input, 0 outside, and whether it lies inside: [count] each."""
        build, none = self.build, np.float32(0)
        place = self._coordinates()
        is_inside = build("Equal", build("Max", build("Min", place, self.last), none), place)
        return build("Where", is_inside, place, none), is_inside

    def _coordinates(self) -> ir.Value:
        """Returns the specification's coordinates of ``tf_crop_and_resize``, in the order of its operations."""
        build = self.build
        if self.count == 1:
            return self._middle()
        extent = build("Mul", build("Mul", self.steps(), build("Sub", self.end, self.begin)), self.last)
        spread = build("Add", build("Mul", self.begin, self.last), build("Div", extent, self.gaps()))
        if isinstance(self.count, int):
            return spread
        return build("Where", build("Equal", self.count, [1]), self._middle(), spread)

    def _middle(self) -> ir.Value:
        """Returns the coordinate of a single output element."""
        build = self.build
        return build("Mul", build("Mul", build("Add", self.begin, self.end), HALF), self.last)


def _axes(node: ir.Node, build: NodeBuilder, x: ir.Value) -> Sequence[_Axis]:
    """Returns the axes that are cropped or get another size.

    Raises:
        InapplicableError: The region or the sizes are not given, or not for every axis.
    """
    axes = resized_axes(node, x)
    roi, region = list_of(node, 1, 2 * len(axes), "region")
    sizes, counts = list_of(node, 3, len(axes), "sizes")
    found: list[_Axis] = []
    for number, axis in enumerate(axes):
        bounds = region[number], region[len(axes) + number]
        wanted = wanted_size(node, axis, counts[number])
        if bounds == _WHOLE and wanted == own_size(x, axis):
            continue
        begin, end = (
            np.array([bound], np.float32)
            if isinstance(bound, int | float)
            else build.cast(build.slice(roi, [place], [place + 1], [0]), FLOAT)
            for bound, place in zip(bounds, (number, len(axes) + number), strict=True)
        )
        found.append(
            _Axis(
                build=build,
                axis=axis,
                rank=len(x.shape or ()),
                last=last_of(build, length_of(build, x, axis)),
                count=wanted if isinstance(wanted, int) else build.slice(sizes, [number], [number + 1], [0]),
                begin=begin,
                end=end,
            )
        )
    return found
