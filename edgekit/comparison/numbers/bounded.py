"""Outputs whose numbers an operator keeps between 0 and 1, so that an absolute difference has a meaning."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.data.words import KEEPS_VALUES
from edgekit.features.written_softmax import written_softmax
from edgekit.model import Model

ROUNDING = 2.0**-20
"""What executions of such an operator differ by: eight units in the last place of 1 in single precision."""
_TO_ONE = {"HardSigmoid", "Sigmoid", "Softmax"}


def bounded_outputs(model: Model) -> frozenset[str]:
    """The outputs that a Sigmoid or a Softmax makes, handed on as they are or in another shape."""
    return frozenset(value.name for value in model.graph.outputs if value.name and _is_bounded(value))


def _is_bounded(value: ir.Value | None) -> bool:
    while value is not None:
        producer = value.producer()
        if producer is None or producer.domain:
            return False
        written = written_softmax(producer)
        if producer.op_type in _TO_ONE or (written is not None and written.op_type == "Softmax"):
            return True
        if producer.op_type not in KEEPS_VALUES or producer.op_type == "Concat":
            return False
        value = producer.inputs[0]
    return False
