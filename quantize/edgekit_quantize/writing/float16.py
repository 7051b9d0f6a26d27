"""Stores weights in half precision and computes in single precision: half the size, with a very small error.

A Cast is inserted behind every large float constant, so all operators still read float32: intermediate values do not
overflow, and branches, loops and operators that only take float32 stay unchanged. Runtimes that compute in half
precision do so anyway; others widen the constants once, when they load the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from edgekit.comparison.numbers.metrics import decibels
from edgekit_quantize.accounts.account import FLOAT, HALF, LayerAccount
from edgekit_quantize.graph.layers import layer_of
from edgekit_quantize.graph.nodes import Names, constant, is_standard
from edgekit_quantize.integers.qparams import row_ranges, sum_of_squares
from edgekit_quantize.integers.stored_weights import FEWEST, RECURRENT
from edgekit_quantize.writing.written import Written

LEAST_DB = 60.0
"""Constants with a lower SQNR in half precision are not stored in it; normal numbers reach 70 dB."""


def in_half_precision(prepared: ir.Model) -> Written:
    """A copy of the model whose large float32 constants are stored as float16.

    Args:
        prepared: The prepared float model; it is not changed.

    Returns:
        The model, with an account of every constant.
    """
    model = prepared.clone()
    written = Written(model)
    names = Names(model.graph)
    for graph, value, array in _large_floats(model):
        error = half_db(array)
        fits = error >= LEAST_DB
        written.accounts.append(
            LayerAccount(
                value.name or "",
                ", ".join(sorted({node.op_type for node, _ in value.uses()})),
                HALF if fits else FLOAT,
                "" if fits else "its numbers are too large or too small for half precision",
                sqnr_db=error,
                weights_db=error,
            )
        )
        if fits:
            _narrow(graph, value, array, names)
    return written


def halve_weights(model: ir.Model) -> None:
    """Stores float32 weights of layers, tables and recurrent nodes in half precision, unless they lose too much by it.

    Scales, biases and other constants stay unchanged.

    Args:
        model: Changed in place.
    """
    names = Names(model.graph)
    for graph, value, array in _large_floats(model):
        if value.uses() and all(_is_weight(*use) for use in value.uses()) and half_db(array) >= LEAST_DB:
            _narrow(graph, value, array, names)


def _large_floats(model: ir.Model) -> Iterator[tuple[ir.Graph, ir.Value, np.ndarray]]:
    """The float32 constants that are large enough for a Cast each, with their graphs and numbers.

    They may be replaced while the result is iterated over.
    """
    for graph in model.graphs():
        for value in list(graph.initializers.values()):
            array = constant(value)
            large = array is not None and array.dtype == np.float32 and array.size >= FEWEST
            if array is not None and large and not value.is_graph_output():
                yield graph, value, array


def _is_weight(node: ir.Node, index: int) -> bool:
    """Whether an input of a node holds its weights or its table."""
    layer = layer_of(node)
    if layer is not None:
        return index == layer.weight_index
    return (is_standard(node, "Gather") and index == 0) or (is_standard(node, *RECURRENT) and index in (1, 2))


def half_db(array: np.ndarray) -> float:
    """Power of the numbers over that of the error of half precision, in decibels; ``-inf`` on overflow."""
    noise = 0.0
    with np.errstate(over="ignore"):
        for rows in row_ranges(array):
            noise += sum_of_squares(array[rows].astype(np.float16).astype(np.float64) - array[rows])
    return decibels(sum_of_squares(array), noise)


def _narrow(graph: ir.Graph, value: ir.Value, array: np.ndarray, names: Names) -> None:
    """Store the constant as float16, with a Cast to float32 for its readers."""
    cast = ir.node("Cast", [], {"to": ir.DataType.FLOAT.value}, num_outputs=1)
    wide = cast.outputs[0]
    wide.name = cast.name = names.fresh(f"{value.name}_float32")
    wide.shape, wide.type = value.shape, ir.TensorType(ir.DataType.FLOAT)
    value.replace_all_uses_with(wide)
    cast.resize_inputs(1)
    cast.replace_input_with(0, value)
    value.const_value = ir.Tensor(array.astype(np.float16), name=value.name)
    value.type = ir.TensorType(ir.DataType.FLOAT16)
    graph.insert_before(graph[0], cast)
