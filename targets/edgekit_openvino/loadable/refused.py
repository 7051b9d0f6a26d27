"""Finds all nodes at once that OpenVINO's ONNX frontend refuses; the frontend itself reports one node at a time.

Found on OpenVINO 2026.4; the tests show for each entry that it is still so.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model
from edgekit.operators.departures import Departure, departing_nodes
from edgekit.rewrites.blocked_scales import WholeBlocks


def refused_nodes(model: Model) -> list[OpGap]:
    """The nodes that the frontend would refuse, in graph order."""
    return departing_nodes(model, REFUSALS, "OpenVINO's ONNX frontend cannot convert it:")


def _has_other_than_whole_blocks(node: ir.Node, _: int) -> bool:
    return WholeBlocks().matches(node)


def _has_a_limit_without_elements(node: ir.Node, _: int) -> bool:
    return any(value is not None and value.shape == (0,) for value in node.inputs[2:])


REFUSALS = (
    Departure(
        ("NonMaxSuppression",), _has_a_limit_without_elements, "a limit or threshold is one number, and one has none"
    ),
    Departure(
        tuple(WholeBlocks.op_types), _has_other_than_whole_blocks, "it takes whole blocks of one scale in matrices only"
    ),
)
