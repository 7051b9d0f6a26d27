"""Operators that only move elements, as gathers, scatters and the like that every runtime has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, has_input
from edgekit.graph.sizes.pool_sizes import windows_rounded_up
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import kept_sizes, rank_of, shape_of, size_along, typed

FAR = 2**30
"""Behind the end of any axis; Core ML's integers of 32 bits hold it plus a size."""


class WrappedPad(Rewrite):
    """``Pad`` that continues at the other end, as a gather along each axis."""

    name: ClassVar[str] = "wrapping by gathers"
    op_types: ClassVar[Sequence[str]] = ("Pad",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the mode is ``wrap``."""
        return node.attributes.get_string("mode", "constant") == "wrap"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant pads."""
        x, pads, axes = node.inputs[0], constant_input(node, 1), constant_input(node, 3)
        rank = rank_of(x)
        is_given = len(node.inputs) > 3 and node.inputs[3] is not None
        if x is None or pads is None or (is_given and axes is None):
            raise InapplicableError("its pads are computed")
        along = [int(axis) % rank for axis in axes] if axes is not None else list(range(rank))
        result = x
        for number, axis in enumerate(along):
            before, behind = int(pads[number]), int(pads[number + len(along)])
            if before or behind:
                result = build("Gather", result, _wrapped_places(x, axis, before, behind, build), axis=axis)
        return [result if result is not x else build("Identity", x)]


def _wrapped_places(x: ir.Value, axis: int, before: int, behind: int, build: NodeBuilder) -> ir.Value | np.ndarray:
    """Returns indices that wrap around, from ``before`` places ahead of an axis to ``behind`` places after it."""
    size = _size(x, axis)
    if size is not None:
        return (np.arange(-before, size + behind) % size).astype(np.int64)
    count = build("Gather", build("Shape", x), np.int64(axis), axis=0)
    places = build("Range", np.int64(-before), build("Add", count, np.int64(behind)), np.int64(1))
    return build("Mod", places, count)


class ChosenPad(Rewrite):
    """``Pad`` with a number that is known only at run time, as a choice between the number and the elements."""

    name: ClassVar[str] = "padding by a choice"
    op_types: ClassVar[Sequence[str]] = ("Pad",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the mode is ``constant``, and the value is computed."""
        is_constant = node.attributes.get_string("mode", "constant") == "constant"
        return is_constant and has_input(node, 2) and constant_input(node, 2) is None

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant pads along axes of known sizes."""
        x, value = node.inputs[0], node.inputs[2]
        rank, pads, axes = rank_of(x), constant_input(node, 1), constant_input(node, 3)
        if pads is None or (has_input(node, 3) and axes is None):
            raise InapplicableError("its pads are computed")
        along = [int(axis) % rank for axis in axes] if axes is not None else list(range(rank))
        before, behind = [0] * rank, [0] * rank
        for number, axis in enumerate(along):
            before[axis], behind[axis] = int(pads[number]), int(pads[number + len(along)])
        is_padded = [begin != 0 or end != 0 for begin, end in zip(before, behind, strict=True)]
        sizes = [size_along(x, axis) if is_padded[axis] else 1 for axis in range(rank)]
        cut = [(max(-begin, 0), max(-end, 0)) for begin, end in zip(before, behind, strict=True)]
        kept = [size - sum(each) for size, each in zip(sizes, cut, strict=True)]
        added = [(max(begin, 0), max(end, 0)) for begin, end in zip(before, behind, strict=True)]
        if min(kept) < 0:
            raise InapplicableError("it cuts off more than there is")
        is_there = np.pad(np.ones(kept, np.bool_), added)
        filled = build("Pad", x, np.array([*before, *behind], np.int64))
        return [build("Where", is_there, filled, build("Reshape", value, np.ones(rank, np.int64)))]


class SlicedGather(Rewrite):
    """``GatherElements`` with fewer indices than data along axes other than its own: the data is cut to the indices.

    OpenVINO removes a Slice from the beginning that precedes GatherElements, along whichever axis the Slice cuts.
    """

    name: ClassVar[str] = "gather from as much as is asked for"
    op_types: ClassVar[Sequence[str]] = ("GatherElements",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For known or open sizes along the axes that are cut; a Slice that precedes the node is left out."""
        data, indices = node.inputs
        rank = rank_of(data)
        axis = node.attributes.get_int("axis", 0) % rank
        whole, kept = _sliced(data)
        if axis in kept:
            whole, kept = data, {}
        opened = []
        for place in range(rank):
            wanted, size = _size(indices, place), _size(data, place)
            if place == axis or _dim(data, place) == _dim(indices, place):
                continue
            if wanted is None or size is None:
                opened.append(place)
            elif wanted < size:
                kept[place] = wanted
        if not kept and not opened:
            raise InapplicableError("it has as many indices as data")
        if 0 in kept.values():
            raise InapplicableError("it has no indices")
        part = whole
        for place, count in kept.items():
            part, _ = build.split(part, place, [count, size_along(whole, place) - count])
        for place in opened:
            part = build("Gather", part, _first(build, indices, place), axis=place)
        return [build("GatherElements", part, indices, axis=axis)]


def _sliced(value: ir.Value | None) -> tuple[ir.Value | None, dict[int, int]]:
    """Returns the value that a Slice takes the beginning of, and how much along which axes; else the value, uncut."""
    node = None if value is None else value.producer()
    if node is None or node.op_type != "Slice" or node.domain:
        return value, {}
    whole = node.inputs[0]
    starts, ends, axes, steps = (constant_input(node, place) for place in range(1, 5))
    if starts is None or ends is None or (has_input(node, 4) and (steps is None or (steps != 1).any())) or starts.any():
        return value, {}
    rank = rank_of(whole)
    along = range(len(starts)) if not has_input(node, 3) else axes
    if along is None:
        return value, {}
    kept = {}
    for place, end in zip(along, ends, strict=True):
        size = _size(whole, int(place) % rank)
        if size is None:
            return value, {}
        count = min(int(end), size) if end >= 0 else size + int(end)
        if count < size:
            kept[int(place) % rank] = count
    return whole, kept


def _first(build: NodeBuilder, indices: ir.Value | None, axis: int) -> ir.Value | np.ndarray:
    """Returns the indices from 0 up to the size of ``indices`` along an axis: [n], int64."""
    size = _size(indices, axis)
    if size is not None:
        return np.arange(size)
    count = build("Gather", build("Shape", indices), np.array(axis), axis=0)
    return build("Range", np.array(0), count, np.array(1))


def _dim(value: ir.Value | None, axis: int) -> int | ir.SymbolicDim | None:
    """Returns a value's size or its name along an axis, or None if there is no shape."""
    return None if value is None or value.shape is None else value.shape[axis]


def _size(value: ir.Value | None, axis: int) -> int | None:
    """Returns a value's size along an axis, or None if it is not known."""
    size = _dim(value, axis)
    return size if isinstance(size, int) else None


class EndlessSlice(Rewrite):
    """``Slice`` backwards to the greatest integer, which exporters write for no end, as one to the least integer."""

    name: ClassVar[str] = "slice backwards to the beginning"
    op_types: ClassVar[Sequence[str]] = ("Slice",)
    versions: ClassVar[range] = range(10, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant ends and steps."""
        ends, steps = constant_input(node, 2), constant_input(node, 4)
        if ends is None or steps is None:
            raise InapplicableError("its ends or steps are computed")
        greatest = np.isin(ends, [np.iinfo(np.int32).max, np.iinfo(np.int64).max])
        if not np.any(greatest & (steps < 0)):
            raise InapplicableError("it has an end")
        written = np.where(greatest & (steps < 0), np.iinfo(ends.dtype).min, ends)
        return [build("Slice", *node.inputs[:2], written, *node.inputs[3:])]


class ComputedAxesSlice(Rewrite):
    """``Slice`` along axes that are computed, as one along all axes with computed starts, ends and steps."""

    name: ClassVar[str] = "slice along all axes"
    op_types: ClassVar[Sequence[str]] = ("Slice",)
    versions: ClassVar[range] = range(11, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether the axes are computed."""
        return has_input(node, 3) and constant_input(node, 3) is None

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a tensor of a known number of axes."""
        rank = rank_of(node.inputs[0])
        axes = build("Mod", build.cast(node.inputs[3], ir.DataType.INT64), np.array(rank))
        whole = (0, FAR, 1)
        given = [node.inputs[place] if has_input(node, place) else None for place in (1, 2, 4)]
        starts, ends, steps = (
            np.full(rank, number)
            if value is None
            else build("ScatterElements", np.full(rank, number), axes, build.cast(value, ir.DataType.INT64), axis=0)
            for number, value in zip(whole, given, strict=True)
        )
        return [build("Slice", node.inputs[0], starts, ends, np.arange(rank), steps)]


class SlicedSplit(Rewrite):
    """``Split`` into a number of parts, the last of which may be smaller, as a slice for each."""

    name: ClassVar[str] = "parts by slices"
    op_types: ClassVar[Sequence[str]] = ("Split",)
    versions: ClassVar[range] = range(18, 1000)

    def matches(self, node: ir.Node) -> bool:
        """Whether no sizes of parts are given."""
        return not has_input(node, 1)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Along an axis of any size."""
        x, count = node.inputs[0], len(node.outputs)
        axis = node.attributes.get_int("axis", 0) % rank_of(x)
        size = build.slice(build("Shape", x), [axis], [axis + 1], [0])
        length = build("Div", build("Add", size, [count - 1]), [count])
        ends = [build("Mul", length, [number]) for number in range(1, count)]
        borders = [build.constant(np.zeros(1, np.int64)), *ends, size]
        return [build("Slice", x, *borders[number : number + 2], [axis]) for number in range(count)]


class PermutingEinsum(Rewrite):
    """``Einsum`` that only puts the axes of one tensor in another order, as diffusion transformers join patches."""

    name: ClassVar[str] = "transposition without an equation"
    op_types: ClassVar[Sequence[str]] = ("Einsum",)

    def matches(self, node: ir.Node) -> bool:
        """Whether there is one tensor, with axes that are all different and all in the result."""
        before, arrow, after = _equation(node)
        return (
            len(node.inputs) == 1
            and bool(arrow)
            and len(set(before)) == len(before)
            and sorted(before) == sorted(after)
        )

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For tensors of any rank whose axes are all named."""
        before, _, after = _equation(node)
        if "." in before:
            raise InapplicableError("its equation leaves axes unnamed")
        return [build("Transpose", node.inputs[0], perm=[before.index(letter) for letter in after])]


def _equation(node: ir.Node) -> tuple[str, str, str]:
    return node.attributes.get_string("equation", "").replace(" ", "").partition("->")


class PaddedTransposition(Rewrite):
    """``ConvTranspose`` with an output shape or ``auto_pad`` SAME, as one with explicit pads."""

    name: ClassVar[str] = "transposed convolution of its shape"
    op_types: ClassVar[Sequence[str]] = ("ConvTranspose",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the pads follow from a shape."""
        return "output_shape" in node.attributes or _is_same(node)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Computes the pads, which may only cut off; for an output shape the input's sizes have to be known.

        With ``auto_pad`` SAME the output has the input's sizes times the strides, or less if strides are longer than
        the kernel. Of an odd number of pads, SAME_UPPER puts one more behind, and other modes one more in front.
        """
        x, kernel = node.inputs[0], shape_of(node.inputs[1])[2:]
        rest = {name: list(node.attributes.get_ints(name, ())) for name in ("strides", "dilations", "output_padding")}
        strides, dilations = rest["strides"] or [1] * len(kernel), rest["dilations"] or [1] * len(kernel)
        added = rest["output_padding"] or [0] * len(kernel)
        beyond = [  # the computed size minus the input's size times the stride
            more + (length - 1) * dilation + 1 - stride
            for stride, more, length, dilation in zip(strides, added, kernel, dilations, strict=True)
        ]
        if "output_shape" in node.attributes:
            wanted = list(node.attributes.get_ints("output_shape"))[-len(kernel) :]
            sizes = [size_along(x, 2 + axis) for axis in range(len(kernel))]
            totals = [
                size * stride + more - out
                for size, stride, more, out in zip(sizes, strides, beyond, wanted, strict=True)
            ]
        else:
            totals = [max(more, 0) for more in beyond]
        if min(totals) < 0:
            raise InapplicableError("its output is larger than what it computes")
        less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
        is_upper = node.attributes.get_string("auto_pad", "NOTSET") == "SAME_UPPER"
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        kept = {name: value for name, value in attributes.items() if name not in ("auto_pad", "output_shape", "pads")}
        return [build("ConvTranspose", *node.inputs, pads=[*less, *more] if is_upper else [*more, *less], **kept)]


def _is_same(node: ir.Node) -> bool:
    return node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")


class WideWindow(Rewrite):
    """Pools with a window larger than the image and its padding, which rounded-up sizes (``ceil_mode``) allow."""

    name: ClassVar[str] = "pooling with a window as large as the image"
    op_types: ClassVar[Sequence[str]] = ("AveragePool", "LpPool", "MaxPool")

    def matches(self, node: ir.Node) -> bool:
        """Whether sizes are rounded up, and the padding is explicit."""
        padding = node.attributes.get_string("auto_pad", "NOTSET")
        return node.attributes.get_int("ceil_mode", 0) == 1 and padding == "NOTSET"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """For images of known sizes: what lies beyond the padding counts neither as an element nor in an average."""
        x = node.inputs[0]
        lengths = [size_along(x, axis) for axis in range(2, rank_of(x))]
        kernel = list(node.attributes["kernel_shape"].as_ints())
        strides, dilations, pads = _steps(node, len(kernel))
        wholes = [length + sum(pads[axis :: len(kernel)]) for axis, length in enumerate(lengths)]
        beyond = [width - whole for width, whole in zip(kernel, wholes, strict=True)]
        wide = {axis for axis, more in enumerate(beyond) if 0 < more < strides[axis] and dilations[axis] == 1}
        if not wide:
            raise InapplicableError("its windows are no larger than the image, or there are none")
        attributes = {name: node.attributes[name].value for name in node.attributes}
        attributes["kernel_shape"] = [wholes[axis] if axis in wide else width for axis, width in enumerate(kernel)]
        attributes["strides"] = [1 if axis in wide else stride for axis, stride in enumerate(strides)]
        return build.several(len(node.outputs), node.op_type, x, **attributes)


class UpwardPool(Rewrite):
    """``MaxPool`` and ``LpPool`` with rounded-up output sizes, as pools with the padding that needs no rounding."""

    name: ClassVar[str] = "pooling without rounding up"
    op_types: ClassVar[Sequence[str]] = ("LpPool", "MaxPool")

    def matches(self, node: ir.Node) -> bool:
        """Whether sizes are rounded up, and the padding is explicit, or none."""
        return node.attributes.get_int("ceil_mode", 0) == 1 and not _is_same(node)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """For images of known sizes; windows that would begin in the padding behind are left out, as in ONNX."""
        x = node.inputs[0]
        lengths = [size_along(x, axis) for axis in range(2, rank_of(x))]
        kernel = list(node.attributes["kernel_shape"].as_ints())
        strides, dilations, pads = _steps(node, len(kernel))
        for axis, length in enumerate(lengths):
            before, behind = pads[axis], pads[axis + len(kernel)]
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            count = windows_rounded_up(length + before, behind, reach, strides[axis])
            needed = (count - 1) * strides[axis] + reach - length - before
            pads[axis + len(kernel)] = max(needed, 0)
            if (length + before + max(needed, 0) - reach) // strides[axis] + 1 != count:
                raise InapplicableError("no padding gives its output sizes")
        if any(pad >= size for pad, size in zip(pads, [*kernel, *kernel], strict=True)):
            raise InapplicableError("the padding that it takes is as large as its windows")
        attributes = {name: node.attributes[name].value for name in node.attributes}
        attributes |= {"auto_pad": "NOTSET", "ceil_mode": 0, "pads": pads}
        return build.several(len(node.outputs), node.op_type, x, **attributes)


class PaddedAverage(Rewrite):
    """``AveragePool`` that counts its padding, as one that does not, times the share of elements without padding."""

    name: ClassVar[str] = "average without padding, scaled"
    op_types: ClassVar[Sequence[str]] = ("AveragePool",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the padding is explicit, and counts."""
        counts = node.attributes.get_int("count_include_pad", 0) == 1
        return counts and node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For images of known sizes; what lies beyond the padding, with rounded-up sizes, counts in neither form."""
        x, dtype = typed(node.inputs[0])
        lengths = [size_along(x, axis) for axis in range(2, rank_of(x))]
        kernel = list(node.attributes["kernel_shape"].as_ints())
        strides, dilations, pads = _steps(node, len(kernel))
        is_upward = node.attributes.get_int("ceil_mode", 0) == 1
        shares: np.ndarray = np.ones((1, 1), np.float64)
        for axis, length in enumerate(lengths):
            before, behind = pads[axis], pads[axis + len(kernel)]
            reach = (kernel[axis] - 1) * dilations[axis] + 1
            count = (length + before + behind - reach) // strides[axis] + 1
            if is_upward:
                count = windows_rounded_up(length + before, behind, reach, strides[axis])
            places = np.arange(count)[:, None] * strides[axis] - before + np.arange(kernel[axis]) * dilations[axis]
            elements = ((places >= 0) & (places < length)).sum(1)
            if not elements.all():
                raise InapplicableError("some of its windows hold nothing but padding")
            shares = shares[..., None] * (elements / (places < length + behind).sum(1))
        attributes = {name: node.attributes[name].value for name in node.attributes}
        attributes["count_include_pad"] = 0
        return [build("Mul", build("AveragePool", x, **attributes), shares.astype(dtype.numpy()))]


class ScatteredUnpool(Rewrite):
    """``MaxUnpool`` as a scatter into zeros."""

    name: ClassVar[str] = "unpooling by a scatter"
    op_types: ClassVar[Sequence[str]] = ("MaxUnpool",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Indices are those of the tensor that was pooled; ``output_shape`` adds zeros behind."""
        (x, dtype), places = typed(node.inputs[0]), node.inputs[1]
        sizes = shape_of(x)
        kernel = list(node.attributes["kernel_shape"].as_ints())
        strides, _, pads = _steps(node, len(kernel))
        pooled = [
            (size - 1) * stride - before - behind + width
            for size, stride, before, behind, width in zip(
                sizes[2:], strides, pads[: len(kernel)], pads[len(kernel) :], kernel, strict=True
            )
        ]
        whole = [*sizes[:2], *pooled]
        zeros = np.zeros(int(np.prod(whole)), dtype.numpy())
        flat = build("ScatterElements", zeros, build("Reshape", places, [-1]), build("Reshape", x, [-1]), axis=0)
        result = build("Reshape", flat, whole)
        if len(node.inputs) < 3 or node.inputs[2] is None:
            return [result]
        wanted = constant_input(node, 2)
        if wanted is None:
            raise InapplicableError("its output_shape is computed")
        behind = [int(want) - size for want, size in zip(wanted, whole, strict=True)]
        if min(behind) < 0:
            raise InapplicableError("its output_shape is smaller than what it was pooled from")
        return [build.pad(result, [*[0] * len(whole), *behind])]


class ConvolvedColumns(Rewrite):
    """``Col2Im`` as a transposed convolution whose weights put each row of a column in its place."""

    name: ClassVar[str] = "columns by a transposed convolution"
    op_types: ClassVar[Sequence[str]] = ("Col2Im",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For constant shapes of image and block; the weights are zeros and ones."""
        x = node.inputs[0]
        rows = size_along(x, 1)
        image, block = constant_input(node, 1), constant_input(node, 2)
        if x is None or x.dtype is None or image is None or block is None:
            raise InapplicableError("the shapes of image and block are computed")
        rank, size = len(block), int(np.prod(block))
        strides, dilations, pads = _steps(node, rank)
        reach = [(int(width) - 1) * dilation + 1 for width, dilation in zip(block, dilations, strict=True)]
        padded = [int(image[axis]) + pads[axis] + pads[axis + rank] for axis in range(rank)]
        counts = [(padded[axis] - reach[axis]) // strides[axis] + 1 for axis in range(rank)]
        channels = rows // size
        weights = np.tile(
            np.eye(size, dtype=x.dtype.numpy()).reshape(size, 1, *map(int, block)), (channels, 1, *[1] * rank)
        )
        rest = [padded[axis] - (counts[axis] - 1) * strides[axis] - reach[axis] for axis in range(rank)]
        columns = build("Reshape", x, [*kept_sizes(x, [0]), rows, *counts])
        result = build("ConvTranspose", columns, weights, group=channels, strides=strides, dilations=dilations)
        result = build.pad(result, [0, 0, *[0] * rank, 0, 0, *rest]) if any(rest) else result
        if any(pads):
            ends = [pads[axis] + int(image[axis]) for axis in range(rank)]
            result = build.slice(result, pads[:rank], ends, list(range(2, 2 + rank)))
        return [result]


class ScatteredTensor(Rewrite):
    """``TensorScatter``, the update of a cache, as ``ScatterElements``."""

    name: ClassVar[str] = "cache update by a scatter"
    op_types: ClassVar[Sequence[str]] = ("TensorScatter",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For an update of a known size along its axis."""
        cache, update = node.inputs[:2]
        rank = rank_of(update)
        axis = node.attributes.get_int("axis", -2) % rank
        along = [-1 if place == axis else 1 for place in range(rank)]
        places: ir.Value | np.ndarray = np.arange(size_along(update, axis)).reshape(along)
        begins = node.inputs[2] if len(node.inputs) > 2 else None
        if begins is not None:
            of_batch = build("Reshape", begins, [-1, *[1] * (rank - 1)])
            places = build("Add", of_batch, places)
        if node.attributes.get_string("mode", "linear") == "circular":
            places = build("Mod", places, np.asarray(size_along(cache, axis), np.int64))
        sizes = kept_sizes(update, range(rank))
        spread = build("Expand", places, build("Shape", update) if 0 in sizes else sizes)
        return [build("ScatterElements", cache, spread, update, axis=axis)]


def _steps(node: ir.Node, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Returns strides and dilations of a node's windows, and the padding before each axis, then behind each axis."""
    ones, none = [1] * rank, [0] * 2 * rank
    attributes = node.attributes
    strides, dilations = (list(attributes.get_ints(name, ones)) for name in ("strides", "dilations"))
    return strides, dilations, list(attributes.get_ints("pads", none))
