"""Recurrent layers that OpenVINO converts into something else."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.nodes import constant_input, has_input
from edgekit.operators.departures import Departure, static_sizes
from edgekit_openvino.misread.conditions import is_set

ACTIVATIONS = ("relu", "sigmoid", "tanh")
"""Of recurrent layers, in small letters."""


def _has_batch_first(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("layout", 0) == 1


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
    """Whether sequences have lengths that follow from data or are constant, where not all sizes are known."""
    if not has_input(node, 4) or static_sizes(node.inputs[0]) is not None:
        return False
    return constant_input(node, 4) is not None or _follows_from_data(node.inputs[4])


def _follows_from_data(value: ir.Value | None) -> bool:
    """Whether more than sizes tell a value: a layer's own number of steps follows from them."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if each is None or each in seen or each.const_value is not None:
            continue
        seen.add(each)
        producer = each.producer()
        if producer is None:
            return True
        if producer.op_type not in ("Shape", "Size"):
            waiting.extend(producer.inputs)
    return False


MISREADINGS = (
    Departure(("GRU", "LSTM", "RNN"), _has_lengths_of_open_sizes, "it ignores lengths of sequences of open sizes"),
    Departure(("GRU", "LSTM", "RNN"), _has_batch_first, "it ignores that the batch comes first (layout 1)"),
    Departure(
        ("GRU", "LSTM", "RNN"), _has_other_activations, "its layers have no activations but relu, sigmoid and tanh"
    ),
    Departure(("GRU", "LSTM", "RNN"), _goes_back_otherwise, "it takes the first activations for both directions"),
    Departure(("LSTM",), _has_peepholes, "it ignores peepholes"),
    Departure(("LSTM",), is_set("input_forget"), "it ignores input_forget"),
)
