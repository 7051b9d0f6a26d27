"""Values read between the elements of a tensor, as weighted sums of gathered neighbors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import shape_of
from edgekit.rewrites.cubic_kernel import OFFSETS, four_weights

HALF_PIXEL_SINCE = 16
"""The opset in which RoiAlign got ``coordinate_transformation_mode``, whose default is not what it did before."""
MOST_SAMPLES = 1 << 22


class GatheredGrid(Rewrite):
    """``GridSample`` of any number of dimensions: nearest, linear and cubic."""

    name: ClassVar[str] = "grid by gathers"
    op_types: ClassVar[Sequence[str]] = ("GridSample",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the ONNX specification's formulas, for inputs of known sizes, of which only the batch may be open.

        With a cubic kernel, elements outside are moved inside, and not the coordinate between them, as in PyTorch and
        ONNX Runtime.
        """
        x, grid = node.inputs
        (batch, channels, *sizes), (_, *outs, rank) = _sizes_but_batch(x), _sizes_but_batch(grid)
        mode = node.attributes.get_string("mode", "linear")
        if mode not in ("nearest", "linear", "bilinear", "cubic", "bicubic"):
            raise InapplicableError(f"mode {mode!r}")
        aligned = node.attributes.get_int("align_corners", 0) == 1
        padding = node.attributes.get_string("padding_mode", "zeros")
        count = math.prod(outs)
        if abs(batch) * count * rank > MOST_SAMPLES:
            raise InapplicableError(f"{abs(batch) * count} samples are too many to be written out")
        assert x is not None
        dtype = _float_type(x)
        points = build("Reshape", grid, [batch, count, rank])
        edges = [_Edge(build, size, padding, dtype, aligned=aligned) for size in sizes]
        neighbours = []
        for axis, edge in enumerate(edges):
            given = build.squeeze(build.slice(points, [rank - 1 - axis], [rank - axis], [2]), [2])
            place = edge.place(given)
            if mode.endswith("cubic"):
                neighbours.append(edge.four(place))
            else:
                neighbours.append((edge.nearest if mode == "nearest" else edge.two)(edge.inside(place)))
        rows = _rows(build, x, batch, channels, sizes)
        first = _first_places(build, x, batch, math.prod(sizes))
        total: ir.Value | None = None
        for corner in itertools.product(*neighbours):
            flat = first
            weight: ir.Value | None = None
            for (place, share), size_behind in zip(corner, _strides(sizes), strict=True):
                flat = build("Add", build("Mul", place, np.asarray(size_behind)), flat)
                if share is not None:
                    weight = share if weight is None else build("Mul", weight, share)
            part = build("Gather", rows, flat, axis=0)
            if weight is not None:
                part = build("Mul", part, build.unsqueeze(weight, [2]))
            total = part if total is None else build("Add", total, part)
        assert total is not None
        return [build("Reshape", build("Transpose", total, perm=[0, 2, 1]), [batch, channels, *outs])]


@dataclass(frozen=True)
class _Edge:
    """One axis of the tensor that is sampled."""

    build: NodeBuilder
    size: int
    padding: str
    dtype: np.dtype
    aligned: bool

    def number(self, value: float) -> np.ndarray:
        return np.asarray(value, self.dtype)

    def place(self, given: ir.Value) -> ir.Value:
        """Returns where a coordinate from -1 to 1 lies, in elements."""
        build, size = self.build, self.size
        moved = build("Add", given, self.number(1))
        if self.aligned:
            return build("Mul", build("Div", moved, self.number(2)), self.number(size - 1))
        return build("Div", build("Sub", build("Mul", moved, self.number(size)), self.number(1)), self.number(2))

    def inside(self, place: ir.Value) -> ir.Value:
        """Returns a coordinate inside that has the same value; with padding ``zeros``, one outside stays outside."""
        build, last = self.build, self.size - 1
        if self.padding == "zeros":
            return build("Max", build("Min", place, self.number(self.size + 1)), self.number(-2))
        if self.padding == "border":
            return build("Max", build("Min", place, self.number(last)), self.number(0))
        if self.padding != "reflection":
            raise InapplicableError(f"unknown padding_mode {self.padding!r}")
        low, high = (0.0, float(last)) if self.aligned else (-0.5, last + 0.5)
        if high == low:
            return build("Mul", place, self.number(0))
        distance = build("Abs", build("Sub", place, self.number(low)))
        turns = build("Floor", build("Div", distance, self.number(2 * (high - low))))
        phase = build("Sub", distance, build("Mul", turns, self.number(2 * (high - low))))
        back = build("Min", phase, build("Sub", self.number(2 * (high - low)), phase))
        return build("Add", back, self.number(low))

    def nearest(self, place: ir.Value) -> list[tuple[ir.Value, ir.Value | None]]:
        """Returns the nearest element; of two that are equally near, the even one."""
        return [self._element(self.build("Round", place), None)]

    def two(self, place: ir.Value) -> list[tuple[ir.Value, ir.Value | None]]:
        """Returns the elements on both sides, and their shares."""
        below = self.build("Floor", place)
        share = self.build("Sub", place, below)
        rest = self.build("Sub", self.number(1), share)
        above = self.build("Add", below, self.number(1))
        return [self._element(below, rest), self._element(above, share)]

    def four(self, place: ir.Value) -> list[tuple[ir.Value, ir.Value | None]]:
        """Returns two elements on each side, and their weights in a cubic kernel."""
        build = self.build
        if self.padding != "reflection":
            place = build("Max", build("Min", place, self.number(self.size + 2)), self.number(-3))
        below = build("Floor", place)
        share = build("Sub", place, below)
        found = []
        for offset, weight in zip(OFFSETS, four_weights(build, share, self.dtype), strict=True):
            element = build("Add", below, self.number(offset))
            found.append(self._element(element if self.padding == "zeros" else self.inside(element), weight))
        return found

    def _element(self, place: ir.Value, share: ir.Value | None) -> tuple[ir.Value, ir.Value | None]:
        """Returns an element's index, moved inside, and its share, which is zero if padding gives zeros outside."""
        build = self.build
        bounded = build("Max", build("Min", place, self.number(self.size - 1)), self.number(0))
        if self.padding == "zeros":
            is_inside = build("Cast", build("Equal", bounded, place), to=int(ir.DataType.from_numpy(self.dtype)))
            share = is_inside if share is None else build("Mul", share, is_inside)
        return build.cast(bounded, ir.DataType.INT64), share


class GatheredRegions(Rewrite):
    """``RoiAlign`` with a fixed number of samples for each bin."""

    name: ClassVar[str] = "regions by gathers"
    op_types: ClassVar[Sequence[str]] = ("RoiAlign",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """As the reference implementation of the standard samples; for inputs of known sizes."""
        x, rois, batches = node.inputs
        _, channels, height, width = shape_of(x)
        count = shape_of(rois)[0]
        attributes = node.attributes
        ratio = attributes.get_int("sampling_ratio", 0)
        if ratio < 1:
            raise InapplicableError("how many samples a bin has shows at run time (sampling_ratio 0)")
        outs = attributes.get_int("output_height", 1), attributes.get_int("output_width", 1)
        if count * outs[0] * outs[1] * ratio * ratio > MOST_SAMPLES:
            raise InapplicableError("its samples are too many to be written out")
        default = "half_pixel" if build.opset >= HALF_PIXEL_SINCE else "output_half_pixel"
        is_half = attributes.get_string("coordinate_transformation_mode", default) == "half_pixel"
        assert x is not None
        dtype = _float_type(x)
        scale, offset = (
            np.asarray(each, dtype) for each in (attributes.get_float("spatial_scale", 1.0), 0.5 if is_half else 0.0)
        )
        corners = build("Sub", build("Mul", rois, scale), offset)
        sides = []
        for axis, (out, size) in enumerate(zip(outs, (height, width), strict=True)):
            begin, end = (build.slice(corners, [place], [place + 1], [1]) for place in (1 - axis, 3 - axis))
            length = build("Sub", end, begin)
            length = length if is_half else build("Max", length, np.asarray(1, dtype))
            steps = (np.arange(out * ratio) + 0.5) / (out * ratio)
            place = build("Add", begin, build("Mul", length, steps.astype(dtype).reshape(1, -1)))
            sides.append(_sides(build, place, size, dtype))  # [count, out * ratio] each
        rows = _rows(build, x, shape_of(x)[0], channels, (height, width))
        first = build("Mul", build("Reshape", batches, [count, 1, 1]), np.asarray(height * width, np.int64))
        parts = []
        for (down, share_down), (right, share_right) in itertools.product(*sides):
            line = build("Mul", build.unsqueeze(down, [2]), np.asarray(width, np.int64))
            flat = build("Add", build("Add", line, build.unsqueeze(right, [1])), first)
            weight = build("Mul", build.unsqueeze(share_down, [2]), build.unsqueeze(share_right, [1]))
            parts.append(build("Mul", build("Gather", rows, flat, axis=0), build.unsqueeze(weight, [3])))
        is_mean = attributes.get_string("mode", "avg") == "avg"
        joined = parts[0]
        for part in parts[1:]:
            joined = build("Add" if is_mean else "Max", joined, part)
        binned = build("Reshape", joined, [count, outs[0], ratio, outs[1], ratio, channels])
        pooled = build.reduce("ReduceMean" if is_mean else "ReduceMax", binned, [2, 4], keepdims=False)
        return [build("Transpose", pooled, perm=[0, 3, 1, 2])]


def _sides(build: NodeBuilder, place: ir.Value, size: int, dtype: np.dtype) -> list[tuple[ir.Value, ir.Value]]:
    """Returns the elements on both sides of a coordinate, and their shares, which are zero far outside."""
    zero, last, one = (np.asarray(number, dtype) for number in (0, size - 1, 1))
    is_near = build(
        "And",
        build("Not", build("Less", place, np.asarray(-1, dtype))),
        build("Not", build("Greater", place, np.asarray(size, dtype))),
    )
    near = build("Cast", is_near, to=int(ir.DataType.from_numpy(dtype)))
    bounded = build("Min", build("Max", place, zero), last)
    below = build("Floor", bounded)
    share = build("Sub", bounded, below)
    above = build("Min", build("Add", below, one), last)
    return [
        (build.cast(below, ir.DataType.INT64), build("Mul", build("Sub", one, share), near)),
        (build.cast(above, ir.DataType.INT64), build("Mul", share, near)),
    ]


def _rows(build: NodeBuilder, x: ir.Value, batch: int, channels: int, sizes: Sequence[int]) -> ir.Value:
    """Returns the tensor's elements as rows of channels: [batch * places, channels]; a batch of -1 is open."""
    flat = build("Reshape", x, [batch, channels, math.prod(sizes)])
    return build("Reshape", build("Transpose", flat, perm=[0, 2, 1]), [max(batch * math.prod(sizes), -1), channels])


def _first_places(build: NodeBuilder, x: ir.Value, batch: int, places: int) -> ir.Value | np.ndarray:
    """Returns the index of the row that each picture starts with: [batch, 1]."""
    if batch >= 0:
        return np.arange(batch, dtype=np.int64).reshape(batch, 1) * places
    count = build.squeeze(build.slice(build("Shape", x), [0], [1], [0]), [0])
    numbers = build("Range", np.asarray(0), count, np.asarray(1))
    return build("Mul", build("Reshape", numbers, [-1, 1]), np.asarray(places))


def _sizes_but_batch(value: ir.Value | None) -> tuple[int, ...]:
    """Returns a value's sizes, with -1 for the first if it is open.

    Raises:
        InapplicableError: Other sizes are not fixed.
    """
    if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape[1:]):
        raise InapplicableError("the shape of its input is not fixed")
    first, *others = value.shape
    return (first if isinstance(first, int) else -1, *(int(size) for size in others if isinstance(size, int)))


def _strides(sizes: Sequence[int]) -> list[int]:
    """Returns by how many elements one step along each axis advances."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _float_type(value: ir.Value) -> np.dtype:
    if value.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE):
        raise InapplicableError("its input holds no floating-point numbers of a known type")
    return value.dtype.numpy()
