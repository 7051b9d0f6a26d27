"""Arc sines and cosines of numbers that rounding has moved beyond 1 or -1: the results stay finite.

The cosine of the angle between two vectors is computed from their product and lengths. For parallel vectors it is 1,
but 1.0000001 if products are summed in another order, or fused. ONNX's Acos of that number is NaN, and so is everything
computed from it. Which runs are affected differs between processors.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

ROUNDING = 2.0**-20
"""How far float32 rounding moves a quotient of sums of few products beyond 1: eight units in the last place.

Numbers farther beyond 1 still give NaN.
"""
_ARCS = ("Acos", "Asin")
_BOUNDED = frozenset({"Clip", "Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Tanh", "Where"})
"""Operators whose results are within -1 to 1, or that :func:`keep_arcs_finite` inserts."""


def keep_arcs_finite(model: ir.Model) -> bool:
    """Replaces arguments at most :data:`ROUNDING` beyond 1 or -1 by 1 or -1, in place.

    Returns:
        Whether there are arc sines or cosines; unknown types may have been inferred then.
    """
    opset = model.opset_imports.get("", 0)
    arcs = [node for node in model.graph if node.op_type in _ARCS and not node.domain]
    if any(value is not None and value.dtype is None for node in arcs for value in node.inputs):
        ShapeInferencePass(strict_mode=False)(model)
    for node in arcs:
        x = node.inputs[0]
        maker = None if x is None else x.producer()
        if x is None or x.dtype != ir.DataType.FLOAT or maker is None or maker.op_type in _BOUNDED:
            continue
        build = NodeBuilder(opset, f"{node_name(node)}/edge")
        bounded = build("Min", build("Max", x, np.float32(-1)), np.float32(1))
        kept = build("Where", build("Less", build("Abs", x), np.float32(1 + ROUNDING)), bounded, x)
        for constant in build.initializers:
            model.graph.register_initializer(constant)
        model.graph.insert_before(node, build.nodes)
        node.replace_input_with(0, kept)
    return bool(arcs)
