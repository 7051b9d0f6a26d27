"""Outputs whose integers stand for other numbers by a scale and a zero point, as those of TensorFlow Lite's INT8 files.

In such outputs a difference of one count is rounding, as in a picture, and the largest integer is the largest number.
"""

from __future__ import annotations

from edgekit.model import Model

_FORMS = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that pass on all numbers of their first input in another shape or layout."""


def quantized_outputs(model: Model) -> frozenset[str]:
    """The outputs of nodes that quantize: QuantizeLinear, and operators on quantized numbers such as QLinearConv."""
    found = set()
    for output in model.graph.outputs:
        node = output.producer()
        while node is not None and node.op_type in _FORMS and not node.domain and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        if node is not None and (node.op_type == "QuantizeLinear" or node.op_type.startswith("QLinear")):
            found.add(output.name or "")
    return frozenset(found)
