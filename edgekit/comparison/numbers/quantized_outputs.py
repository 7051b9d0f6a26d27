"""Outputs whose integers stand for other numbers by a scale and a zero point, as those of TensorFlow Lite's INT8 files.

A count more or less is rounding there, as in a picture, and their largest entry is that of the numbers.
"""

from __future__ import annotations

from edgekit.model import Model

_FORMS = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that hand on all numbers of their first input, in another form."""


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
