"""Recurrent layers that OpenVINO converts into something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.values import size_of, source
from edgekit.graph.nodes import has_input
from edgekit.operators.departures import Departure, static_sizes
from edgekit_openvino.misread.conditions import is_set

ACTIVATIONS = ("relu", "sigmoid", "tanh")
"""The activations of OpenVINO's recurrent layers, in lower case."""
_KEEPING = ("Cast", "Expand", "Identity", "Reshape", "Squeeze", "Tile", "Unsqueeze")
"""Operators all of whose output elements are elements of their first input."""


def _has_batch_first(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("layout", 0) != 0


def _clips_at_no_limit(node: ir.Node, _: int) -> bool:
    """Whether the limit of the clipping is not above 0; ONNX Runtime refuses it, or clips everything to 0."""
    return node.attributes.get_float("clip", np.inf) <= 0


def _has_peepholes(node: ir.Node, _: int) -> bool:
    return has_input(node, 7)


def _has_other_activations(node: ir.Node, _: int) -> bool:
    return any(name.lower() not in ACTIVATIONS for name in node.attributes.get_strings("activations", ()))


def _goes_back_otherwise(node: ir.Node, _: int) -> bool:
    """Whether the way back has other activations than the way there."""
    names = [name.lower() for name in node.attributes.get_strings("activations", ())]
    half = len(names) // 2
    return node.attributes.get_string("direction", "forward") == "bidirectional" and names[:half] != names[half:]


def _has_lengths_of_open_sizes(node: ir.Node, _: int) -> bool:
    """Whether sequences may be shorter than the layer's number of steps, where not all sizes are known."""
    if not has_input(node, 4) or static_sizes(node.inputs[0]) is not None:
        return False
    return not _is_the_number_of_steps(node.inputs[4], node.inputs[0])


def _is_the_number_of_steps(lengths: ir.Value | None, sequences: ir.Value | None) -> bool:
    """Whether all lengths are the size of the sequences' first axis, which some exporters write for each sequence."""
    if lengths is None or sequences is None:
        return False
    size = size_of(lengths)
    if size is not None:
        known = [None if value.shape is None else value.shape[axis] for value, axis in (size, (sequences, 0))]
        return size == (source(sequences), 0) or (known[0] == known[1] and _is_given(known[0]))
    node = lengths.producer()
    if node is None or node.domain:
        return False
    if node.op_type == "Concat":
        return all(_is_the_number_of_steps(value, sequences) for value in node.inputs)
    return node.op_type in _KEEPING and _is_the_number_of_steps(node.inputs[0], sequences)


def _is_given(size: int | ir.SymbolicDim | None) -> bool:
    return isinstance(size, int) or (size is not None and size.value is not None)


MISREADINGS = (
    Departure(("GRU", "LSTM", "RNN"), _has_lengths_of_open_sizes, "it ignores lengths of sequences of open sizes"),
    Departure(("GRU", "LSTM", "RNN"), _has_batch_first, "it ignores that the batch comes first (layout 1)"),
    Departure(("GRU", "LSTM", "RNN"), _clips_at_no_limit, "it takes a clip that is not above 0 for another one"),
    Departure(
        ("GRU", "LSTM", "RNN"), _has_other_activations, "its layers have no activations but relu, sigmoid and tanh"
    ),
    Departure(("GRU", "LSTM", "RNN"), _goes_back_otherwise, "it takes the first activations for both directions"),
    Departure(("LSTM",), _has_peepholes, "it ignores peepholes"),
    Departure(("LSTM",), is_set("input_forget"), "it ignores input_forget"),
)
