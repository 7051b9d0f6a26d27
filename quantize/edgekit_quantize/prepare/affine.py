"""Moves multiplications and additions of constants into the weights and biases of the layers around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.layers import Layer, is_padded, layer_of
from edgekit_quantize.graph.nodes import (
    Names,
    add_initializer,
    bypass,
    constant,
    is_standard,
    only_consumer,
    remove_unread,
    static_shape,
)
from edgekit_quantize.graph.parameters import (
    can_rescale,
    output_channels,
    scale_input,
    scale_output,
)

CONV_RANK = 4
"""The rank of a two-dimensional convolution's input."""


@dataclass(frozen=True)
class Affine:
    """A node that computes ``factor * data + shift`` with constants."""

    node: ir.Node
    data: ir.Value
    factor: np.ndarray
    shift: np.ndarray


def affine_of(node: ir.Node) -> Affine | None:
    """The affine map of a Mul, Div, Add or Sub of a float constant and a computed value; None for other nodes.

    None also if the constant gives the result more axes than the computed value has.
    """
    if not is_standard(node, "Mul", "Div", "Add", "Sub"):
        return None
    first, second = node.inputs
    left, right = constant(first), constant(second)
    if (left is None) == (right is None):
        return None
    number = np.asarray(right if left is None else left)
    data = first if left is None else second
    if data is None or number.dtype.kind != "f" or not np.isfinite(number).all() or not _keeps_rank(number, data):
        return None
    number = number.astype(np.float64)
    one, none = np.ones(()), np.zeros(())
    match node.op_type:
        case "Mul":
            return Affine(node, data, number, none)
        case "Add":
            return Affine(node, data, one, number)
        case "Sub":
            return Affine(node, data, one, -number) if left is None else Affine(node, data, -one, number)
        case _:  # Div; a constant divided by data is not affine
            return Affine(node, data, 1 / number, none) if left is None and np.all(number) else None


def _keeps_rank(number: np.ndarray, data: ir.Value) -> bool:
    """Whether the result has as many axes as ``data``: a constant of shape 1×1 would turn a vector into a row."""
    return number.ndim == 0 or (data.shape is not None and number.ndim <= len(data.shape))


def fold_backward(graph: ir.Graph) -> None:
    """Fold constant factors and shifts into the layer before them, and drop those that change nothing."""
    _until_settled(graph, _drop, _into_producer)


def fold_forward(graph: ir.Graph) -> None:
    """Fold constant factors and shifts into the layers before and behind them, and drop those that change nothing.

    This must come after activation functions that are written out as several nodes have been recognized, as their
    constants must stay.
    """
    _until_settled(graph, _drop, _into_producer, _into_readers)


def _until_settled(graph: ir.Graph, *steps: Callable[[ir.Graph, Affine], bool]) -> None:
    changed = True
    while changed:
        changed = False
        for node in list(graph.all_nodes()):
            affine = affine_of(node) if node.graph is not None else None
            if affine is not None and any(step(graph, affine) for step in steps):
                changed = True


def _drop(graph: ir.Graph, affine: Affine) -> bool:
    """Drop a node that computes ``1 * x + 0``; returns whether it was dropped."""
    if not (np.all(affine.factor == 1) and np.all(affine.shift == 0)) or affine.node.outputs[0].is_graph_output():
        return False
    before, behind = static_shape(affine.data), static_shape(affine.node.outputs[0])
    if max(affine.factor.size, affine.shift.size) > 1 and (before is None or before != behind):
        return False
    bypass(affine.node, affine.data)
    return True


def _into_producer(graph: ir.Graph, affine: Affine) -> bool:
    producer = affine.data.producer()
    layer = layer_of(producer) if producer is not None else None
    if layer is None or not can_rescale(layer) or only_consumer(affine.data) is not affine.node:
        return False
    channels = output_channels(layer)
    rank = _rank(layer)
    factor, shift = (_per_channel(number, channels, rank) for number in (affine.factor, affine.shift))
    return factor is not None and shift is not None and scale_output(graph, layer, factor, shift, affine.node)


def _into_readers(graph: ir.Graph, affine: Affine) -> bool:
    output = affine.node.outputs[0]
    readers = [layer_of(node) for node, _ in output.uses()]
    if not readers or output.is_graph_output() or affine.factor.size > 1 or affine.shift.size > 1:
        return False
    if any(reader is None or reader.data is not output for reader in readers):
        return False
    if any(node.graph is not affine.node.graph for node, _ in output.uses()):
        return False
    if _is_gate(affine.data.producer()):
        return False
    layers = [reader for reader in readers if reader is not None]
    shift = float(affine.shift.reshape(-1)[0])
    if shift and not all(can_rescale(layer) and not is_padded(layer) for layer in layers):
        return False
    for layer in layers:
        scale_input(graph, layer, float(affine.factor.reshape(-1)[0]), shift)
    bypass(affine.node, affine.data)
    return True


def _is_gate(node: ir.Node | None) -> bool:
    """Whether the node multiplies two computed values, as in activation functions that are written out."""
    return node is not None and is_standard(node, "Mul") and affine_of(node) is None


def _ends_gelu(affine: Affine) -> bool:
    """Whether the node scales ``x * (1 + erf(x))`` or ``x * (1 + tanh(x))``, which runtimes fuse into one operation."""
    gate = affine.data.producer()
    if gate is None or not _is_gate(gate):
        return False
    for value in gate.inputs:
        source = value.producer() if value is not None else None
        shifted = affine_of(source) if source is not None else None
        function = shifted.data.producer() if shifted is not None else None
        if function is not None and is_standard(function, "Erf", "Tanh"):
            return True
    return False


def _rank(layer: Layer) -> int:
    return layer.weights().ndim


def _per_channel(number: np.ndarray, channels: int, rank: int) -> np.ndarray | None:
    """``number`` as one entry per channel (axis 1 of a tensor of ``rank``), or one for all; None if it is neither."""
    if number.size == 1:
        return number.reshape(1)
    if number.ndim > rank or number.size != channels:
        return None
    shape = (1,) * (rank - number.ndim) + number.shape
    return number.reshape(-1) if shape[1] == channels else None


def shifts_to_convolutions(graph: ir.Graph) -> int:
    """Write scalings and shifts before convolutions as depthwise 1x1 convolutions; returns how many.

    They remain before padded convolutions, as a shift cannot move into a convolution that pads with zeros. A runtime
    that keeps convolutions in a blocked layout leaves that layout for an Add or Mul, which costs more than the
    depthwise convolution.
    """
    names = Names(graph)
    count = 0
    for node in list(graph):
        last = affine_of(node)
        if node.graph is None or last is None or not _feeds_convolutions(node.outputs[0]) or _ends_gelu(last):
            continue
        before = last.data.producer()
        first = affine_of(before) if before is not None and only_consumer(last.data) is node else None
        data = last.data if first is None else first.data
        shape = static_shape(data)
        if shape is None or len(shape) != CONV_RANK or data.dtype is not ir.DataType.FLOAT:
            continue
        factor, shift = last.factor, last.shift
        if first is not None:
            factor, shift = factor * first.factor, last.factor * first.shift + last.shift
        channels = shape[1]
        numbers = [_per_channel(number, channels, CONV_RANK) for number in (factor, shift)]
        if any(number is None for number in numbers):
            continue
        wide = [np.broadcast_to(number, (channels,)).astype(np.float32) for number in numbers if number is not None]
        weight = add_initializer(graph, names.fresh(f"{node.name}_factor"), wide[0].reshape(channels, 1, 1, 1))
        bias = add_initializer(graph, names.fresh(f"{node.name}_shift"), wide[1])
        conv = ir.node("Conv", [data, weight, bias], {"group": channels}, name=f"{node.name}_as_conv", num_outputs=1)
        conv.outputs[0].name = names.fresh(f"{node.name}_as_conv")
        conv.outputs[0].shape, conv.outputs[0].type = data.shape, data.type
        graph.insert_after(node, conv)
        bypass(node, conv.outputs[0])
        if first is not None:
            remove_unread([first.node])
        count += 1
    return count


def _feeds_convolutions(value: ir.Value) -> bool:
    readers = [node for node, _ in value.uses()]
    return bool(readers) and not value.is_graph_output() and all(is_standard(node, "Conv") for node in readers)
