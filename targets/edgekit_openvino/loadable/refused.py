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


REFUSALS = (
    Departure(
        tuple(WholeBlocks.op_types), _has_other_than_whole_blocks, "it takes whole blocks of one scale in matrices only"
    ),
)
