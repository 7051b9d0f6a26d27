"""Sizes of pools that round up, which ONNX's own inference computes too large before opset 22.

ONNX's reference, ONNX Runtime and PyTorch omit a window that would begin in the padding at the end, and so does the
inference from opset 22 on. Before opset 22, the inference counts that window (onnx 1.23).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import onnx

POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
Sizes = Mapping[str, Sequence[int | None]]


def windows_rounded_up(begin_of_padding: int, behind: int, reach: int, stride: int) -> int:
    """Returns the number of windows along an axis if that number is rounded up.

    Args:
        begin_of_padding: Where the padding at the end begins: the length plus the padding at the start.
        behind: The padding at the end.
        reach: The dilated size of a window.
        stride: The distance between windows.
    """
    count = -(-(begin_of_padding + behind - reach) // stride) + 1
    return count - 1 if count > 1 and (count - 1) * stride >= begin_of_padding else count


def rounds_up(proto: onnx.ModelProto) -> bool:
    """Whether the graph or a body in it has a pool that rounds up."""
    return any(_upward(node) for graph in _graphs(proto.graph) for node in graph.node)


def round_down(proto: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Pads pools that omit a window so that rounding down gives the same number of windows, in place.

    Sizes stated for values that depend on these pools are removed.

    Args:
        proto: A model for shape inference only, not for execution.
        inferred: The model with inferred sizes.

    Returns:
        Whether there were any.
    """
    changed = False
    for graph, with_sizes in zip(_graphs(proto.graph), _graphs(inferred.graph), strict=True):
        infos = chain(with_sizes.input, with_sizes.value_info, with_sizes.output)
        sizes = {info.name: _sizes(info) for info in infos}
        sizes |= {tensor.name: list(tensor.dims) for tensor in with_sizes.initializer}
        changed_here = [node for node in graph.node if _upward(node) and _rounded_down(node, sizes)]
        if changed_here:
            _forget_sizes_behind(graph, {name for node in changed_here for name in node.output})
            changed = True
    return changed


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                if body.node:
                    yield from _graphs(body)


def _upward(node: onnx.NodeProto) -> bool:
    if node.op_type not in POOLS or node.domain not in ("", "ai.onnx"):
        return False
    attributes = {attribute.name: attribute for attribute in node.attribute}
    is_same = "auto_pad" in attributes and attributes["auto_pad"].s.startswith(b"SAME")
    return not is_same and "ceil_mode" in attributes and attributes["ceil_mode"].i == 1


def _sizes(info: onnx.ValueInfoProto) -> list[int | None]:
    shape = info.type.tensor_type.shape
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in shape.dim]


def _rounded_down(node: onnx.NodeProto, sizes: Sizes) -> bool:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    kernel = list(attributes["kernel_shape"].ints) if "kernel_shape" in attributes else []
    lengths = sizes.get(node.input[0], ())[2:]
    if not kernel or len(lengths) != len(kernel):
        return False

    def each(name: str, default: Sequence[int]) -> list[int]:
        return list(attributes[name].ints) if name in attributes and attributes[name].ints else list(default)

    ones = [1] * len(kernel)
    strides, dilations, pads = each("strides", ones), each("dilations", ones), each("pads", [0] * 2 * len(kernel))
    if not len(strides) == len(dilations) == len(kernel) == len(pads) // 2 or min(strides) < 1:
        return False  # the inference reports what is wrong with the node
    leaves_out = False
    for axis, length in enumerate(lengths):
        if length is None:
            continue
        before, behind = pads[axis], pads[axis + len(kernel)]
        reach, stride = (kernel[axis] - 1) * dilations[axis] + 1, strides[axis]
        last = windows_rounded_up(length + before, behind, reach, stride) - 1
        leaves_out |= last < -(-(length + before + behind - reach) // stride)
        pads[axis + len(kernel)] = max(last * stride + reach - length - before, 0)
    if leaves_out:
        kept = [attribute for attribute in node.attribute if attribute.name not in ("auto_pad", "ceil_mode", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    return leaves_out


def _forget_sizes_behind(graph: onnx.GraphProto, names: Collection[str]) -> None:
    """Removes the value infos of all values that are computed from the named ones, in place."""
    behind = set(names)
    for node in graph.node:  # nodes are sorted: a node's inputs are computed before it
        if behind.intersection(node.input):
            behind.update(node.output)
    kept = [info for info in graph.value_info if info.name not in behind]
    del graph.value_info[:]
    graph.value_info.extend(kept)
