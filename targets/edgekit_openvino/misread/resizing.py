"""Resizing that OpenVINO converts into something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input
from edgekit.operators.departures import Departure, aligns_corners_by_broken_scales
from edgekit_openvino.misread.conditions import is_not_zero


def _repeats_by_the_rounded_size(node: ir.Node, _: int) -> bool:
    """Whether nearest elements are taken by factors that do not give whole sizes, or may not."""
    factors, shape = constant_input(node, 1), node.inputs[0].shape if node.inputs[0] is not None else None
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return False
    if factors is None or shape is None:
        return True
    return any(
        factor % 1 and (not isinstance(size, int) or factor * np.float32(size) % 1)
        for factor, size in zip(factors.astype(np.float32), shape, strict=True)
    )


def _keeps_aspect_ratio(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"


def _aligns_corners_by_broken_scales(node: ir.Node, _: int) -> bool:
    return aligns_corners_by_broken_scales(node, if_unknown=True)


def _takes_elements_beside_corners(node: ir.Node, _: int) -> bool:
    """Whether nearest elements are taken with aligned corners; OpenVINO rounds the scale before it multiplies by it."""
    attributes = node.attributes
    aligned = attributes.get_string("coordinate_transformation_mode", "half_pixel") == "align_corners"
    return aligned and attributes.get_string("mode", "nearest") == "nearest"


MISREADINGS = (
    Departure(("Resize",), is_not_zero("antialias"), "it ignores antialias"),
    Departure(("Resize",), is_not_zero("exclude_outside"), "it ignores exclude_outside"),
    Departure(("Resize",), _keeps_aspect_ratio, "it ignores keep_aspect_ratio_policy"),
    Departure(("Resize",), _aligns_corners_by_broken_scales, "it aligns corners by the rounded size, not by the scale"),
    Departure(("Resize",), _takes_elements_beside_corners, "at whole positions it takes the neighboring element"),
    Departure(("Upsample",), _repeats_by_the_rounded_size, "it repeats by the rounded size, not by the factor"),
)
