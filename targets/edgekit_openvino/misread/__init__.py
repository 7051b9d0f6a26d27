"""Nodes that OpenVINO's ONNX frontend converts into something else without an error, so that they are refused.

Found with the ONNX standard's own test cases on OpenVINO 2026.4; the tests show for each entry that it is still so.
"""

from __future__ import annotations

from edgekit.errors import OpGap
from edgekit.model import Model
from edgekit.operators.departures import departing_nodes
from edgekit_openvino.misread import (
    attention,
    integers,
    movement,
    products,
    recurrent,
    reductions,
    resizing,
    windows,
)

_FAMILIES = (attention, integers, movement, products, recurrent, reductions, resizing, windows)
MISREADINGS = tuple(departure for family in _FAMILIES for departure in family.MISREADINGS)


def misread_nodes(model: Model) -> list[OpGap]:
    """The nodes that the frontend would convert into something else, in graph order."""
    return departing_nodes(model, MISREADINGS, "OpenVINO computes it wrong:")
