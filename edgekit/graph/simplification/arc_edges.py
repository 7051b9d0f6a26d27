"""Arc sines and cosines of numbers that rounding has taken beyond 1 or -1: they stay finite.

The cosine of the angle between two vectors is computed from their product and lengths. Between parallel ones it is 1,
and where products are summed in another order, or fused, 1.0000001: of that ONNX's Acos is NaN, and so is all that
follows. Which executions meet it differs from processor to processor.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.graph.building import NodeBuilder
from edgekit.model import node_name

ROUNDING = 2.0**-20
"""How far beyond 1 rounding in float32 takes a quotient of sums of few products: eight units in the last place. What is
farther is NaN as before."""
_ARCS = ("Acos", "Asin")
_BOUNDED = frozenset({"Clip", "Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Tanh", "Where"})
"""Operators that give no number beyond 1, or are what :func:`keep_arcs_finite` puts there."""


def keep_arcs_finite(model: ir.Model) -> bool:
    """Takes numbers that are beyond 1 or -1 by no more than :data:`ROUNDING` for 1 or -1, in place.

    Returns:
        Whether such numbers may come; types may be known then that were not.
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
