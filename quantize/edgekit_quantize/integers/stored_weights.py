"""How weights are scaled and called that are only stored as integers, and which ones can be."""

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
"""Weights with fewer elements stay float: scales and nodes would take more room than they save."""
SCALES_WEIGH_MORE = "its scales take the room that integers save"
"""Why such weights stay float."""
RECURRENT = ("LSTM", "GRU", "RNN")
LENGTHS = 4
"""Which input of them tells how long each sequence is."""


def saves_room(array: np.ndarray, params: QParams, float_weights: str) -> bool:
    """Whether integers and their scales take less room than floats: not where few numbers share a scale.

    Args:
        array: The floats.
        params: How they are stored as integers.
        float_weights: What they are stored as otherwise, ``float32`` or ``float16``.
    """
    bits = 4 if params.dtype in (TYPES["int4"], TYPES["uint4"]) else 8
    return array.size * bits / 8 + params.scale.nbytes < array.size * np.dtype(float_weights).itemsize


def stored_form(layer: Layer, dtype: str, block: int, *, whole_blocks: bool) -> tuple[str, int]:
    """The type and block that a layer's weights get where ``dtype`` and ``block`` are asked for.

    Blocks are for matrices that one layer alone reads. Other weights get int8 and a scale a channel: runtimes turn a
    matrix in blocks that several read into floats, anew for every product.
    """
    if not block:
        return dtype, block
    alone = layer.weights().ndim == 2 and only_consumer(layer.weight) is layer.node
    even = not whole_blocks or layer.weights().shape[1 - layer.channel_axis] % block == 0
    return (dtype, block) if alone and even else ("int8", 0)


def stored_name(layer: Layer) -> str:
    """What the stored weights of a layer are called, beside those that it multiplies as integers."""
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
    """What the weights of a recurrent node are called, by the input that holds them."""
    return f"{node_name(node)}, {'input' if index == 1 else 'recurrence'}"


def takes_steps(node: ir.Node) -> bool:
    """Whether a recurrent node can be written out step by step.

    Its sequences come first and are all of one length, and its weights are constant, its own and no few.
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
