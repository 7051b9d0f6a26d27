"""Attention and its positions that OpenVINO converts into something else."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.nodes import has_input
from edgekit.operators.departures import Departure
from edgekit.rewrites.quantized_operators import MICROSOFT
from edgekit_openvino.misread.conditions import always, rank_of


def _windowed(node: ir.Node, _: int) -> bool:
    return any(node.attributes.get_int(side, -1) >= 0 for side in ("left_window_size", "right_window_size"))


def _causal_with_past_and_more(node: ir.Node, _: int) -> bool:
    """Whether a causal mask comes with a past, and with another mask or a number of new keys unlike that of queries."""
    if node.attributes.get_int("is_causal", 0) != 1 or not has_input(node, 4):
        return False
    queries, keys = (None if value is None or value.shape is None else value.shape[-2] for value in node.inputs[:2])
    return has_input(node, 3) or queries is None or queries != keys


def _has_own_scale(node: ir.Node, _: int) -> bool:
    return node.attributes.get_float("scale", 0.0) != 0


def _starts_later_or_turns_some(node: ir.Node, _: int) -> bool:
    return rank_of(node.inputs[1]) == 1 or node.attributes.get_int("rotary_embedding_dim", 0) > 0


MISREADINGS = (
    Departure(("Attention",), _windowed, "it ignores the window"),
    Departure(
        ("Attention",),
        _causal_with_past_and_more,
        (
            "it misplaces a causal mask if there is a past and another mask, or if the numbers of new keys and queries "
            "differ"
        ),
    ),
    Departure(("Attention",), _has_own_scale, "it ignores the scale", MICROSOFT),
    Departure(("GroupQueryAttention",), always, "it takes one sequence at a time", MICROSOFT),
    Departure(
        ("RotaryEmbedding",),
        _starts_later_or_turns_some,
        "it counts positions from 0 if a single one is given, and rotates all elements",
        MICROSOFT,
    ),
)
