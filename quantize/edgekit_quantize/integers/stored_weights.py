"""Scales and names of weights that are only stored as integers, and which weights can be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from edgekit.model import node_name
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import constant, integer, is_standard, only_consumer
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.weights import symmetric_weights

FEWEST = 512
"""Weights with fewer elements stay float: scales and nodes would take more space than integers save."""
SCALES_WEIGH_MORE = "its scales take the room that integers save"
"""The reason in the account of a weight that stays float because integers do not save space (:func:`saves_room`)."""
RECURRENT = ("LSTM", "GRU", "RNN")
LENGTHS = 4
"""The index of the input of LSTM, GRU and RNN that holds the length of each sequence."""


def saves_room(array: np.ndarray, params: QParams, float_weights: str) -> bool:
    """Whether integers and their scales take less space than floats, which is not so if few numbers share a scale.

    Args:
        array: The floats.
        params: The parameters of the integers.
        float_weights: The type in which the floats are stored otherwise, ``float32`` or ``float16``.
    """
    bits = 4 if params.dtype in (TYPES["int4"], TYPES["uint4"]) else 8
    return array.size * bits / 8 + params.scale.nbytes < array.size * np.dtype(float_weights).itemsize


def stored_form(layer: Layer, dtype: str, block: int, *, whole_blocks: bool) -> tuple[str, int]:
    """The type and block that a layer's weights get if ``dtype`` and ``block`` are requested.

    Blocks are for matrices that only one layer reads. Other weights get int8 and a scale per channel: if several layers
    read a matrix in blocks, runtimes convert it to floats for every product.
    """
    if not block:
        return dtype, block
    alone = layer.weights().ndim == 2 and only_consumer(layer.weight) is layer.node
    even = not whole_blocks or layer.weights().shape[1 - layer.channel_axis] % block == 0
    return (dtype, block) if alone and even else ("int8", 0)


def stored_name(layer: Layer) -> str:
    """The name of a layer's weights that are only stored, which differs from that of weights multiplied as integers."""
    return f"{layer.name}, stored"


def layer_params(layer: Layer, dtype: str, block: int) -> QParams:
    """Parameters for a layer's weights: per output channel, or with ``block`` along the inputs of a matrix."""
    axis = 1 - layer.channel_axis if block else layer.channel_axis
    return symmetric_weights(layer.weights(), TYPES[dtype], axis, block)


def tables(model: ir.Model) -> Iterator[ir.Node]:
    """Gather nodes, in subgraphs too, that read rows of a large constant matrix."""
    for node in model.graph.all_nodes():
        if is_standard(node, "Gather") and integer(node, "axis", 0) == 0:
            table = constant(node.inputs[0])
            if table is not None and table.dtype == np.float32 and table.ndim == 2 and table.size >= FEWEST:
                yield node


def recurrent_name(node: ir.Node, index: int) -> str:
    """The name of the weights at an input of a recurrent node: 1 holds the input weights, 2 the recurrence weights."""
    return f"{node_name(node)}, {'input' if index == 1 else 'recurrence'}"


def takes_steps(node: ir.Node) -> bool:
    """Whether a recurrent node can be written out step by step.

    This needs sequences along the first axis, all of one length; constant float32 weights, of at least :data:`FEWEST`
    elements each, that no other node reads; and an input of known shape.
    """
    held = [value for value in node.inputs[1:4] if value is not None]
    weights = [constant(value) for value in held]
    if integer(node, "layout", 0) or any(array is None or array.dtype != np.float32 for array in weights):
        return False
    if any(len(value.uses()) > 1 for value in held[:2]):
        return False
    if len(node.inputs) > LENGTHS and node.inputs[LENGTHS] is not None:
        return False
    x = node.inputs[0]
    known = x is not None and x.shape is not None and x.dtype in {None, ir.DataType.FLOAT}
    return known and all(array is not None and array.size >= FEWEST for array in weights[:2])


def recurrent_weights(model: ir.Model) -> Iterator[tuple[ir.Node, int, QParams]]:
    """The input and recurrence weights of recurrent nodes, in subgraphs too: node, input index, parameters."""
    for node in model.graph.all_nodes():
        if not is_standard(node, *RECURRENT):
            continue
        for index in (1, 2):
            array = constant(node.inputs[index])
            if array is not None and array.dtype == np.float32 and array.size >= FEWEST:
                yield node, index, symmetric_weights(array, TYPES["int8"], 1)
