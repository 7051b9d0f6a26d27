"""Automatic padding of dilated convolutions becomes explicit numbers, as ONNX Runtime requires.

PyTorch's TorchScript exporter writes ``padding="same"`` as ``auto_pad`` SAME_UPPER. The standard allows it together
with dilations, and ONNX Runtime refuses it.
"""

from __future__ import annotations

import onnx_ir as ir

_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Operators, and which of their inputs is the kernel."""


def write_out_dilated_padding(graph: ir.Graph) -> int:
    """Replaces ``auto_pad`` SAME by ``pads`` in dilated convolutions with strides of one, in place.

    Formula: https://onnx.ai/onnx/operators/onnx__Conv.html, for an output as large as the input. The padding has
    ``(length - 1) · dilation`` elements; if that is odd, the additional element is at the end with SAME_UPPER, and at
    the start with SAME_LOWER.

    Returns:
        The number of convolutions changed.
    """
    found = 0
    for node in graph.all_nodes():
        if (pads := _pads(node)) is None:
            continue
        del node.attributes["auto_pad"]
        node.attributes.add(ir.AttrInt64s("pads", pads))
        found += 1
    return found


def _pads(node: ir.Node) -> list[int] | None:
    """Returns the padding before and behind each spatial axis, or None for any other node."""
    if node.domain or node.op_type not in _CONVOLUTIONS:
        return None
    padding = node.attributes.get_string("auto_pad", "NOTSET")
    dilations = node.attributes.get_ints("dilations", ())
    if not padding.startswith("SAME") or max(dilations, default=1) == 1:
        return None
    if max(node.attributes.get_ints("strides", ()), default=1) > 1:
        return None
    lengths = _lengths(node)
    if lengths is None:
        return None
    totals = [(length - 1) * dilation for length, dilation in zip(lengths, dilations, strict=True)]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return [*less, *more] if padding == "SAME_UPPER" else [*more, *less]


def _lengths(node: ir.Node) -> list[int] | None:
    """How long the kernel is along each spatial axis, if that is known."""
    if "kernel_shape" in node.attributes:
        return list(node.attributes.get_ints("kernel_shape"))
    kernel = node.inputs[_CONVOLUTIONS[node.op_type]]
    shape = kernel.shape if kernel is not None else None
    if shape is None or not shape.is_static():
        return None
    return [size for size in shape[2:] if isinstance(size, int)]
