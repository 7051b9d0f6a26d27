"""Outputs that are no tensors: a bundle's outputs, its golden data and its check on the device are tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from edgekit.model import Model, node_name
from edgekit.target import NodeVerdict, Support

HINT = (
    "return tensors: `SequenceAt` or `ConcatFromSequence` reads a sequence, `OptionalGetElement` an optional value; "
    "`edgekit extract --outputs` ends the model before it"
)


def with_unreturnable_refused(model: Model, verdicts: Sequence[NodeVerdict]) -> list[NodeVerdict]:
    """Returns the verdicts, in which nodes that make outputs of other types than tensors are unsupported everywhere."""
    details = {
        node_name(node): f"the model's output {value.name!r} is {_kind(value)}, and a bundle returns tensors"
        for value in model.graph.outputs
        if isinstance(value.type, ir.SequenceType | ir.OptionalType) and (node := value.producer()) is not None
    }
    return [
        replace(verdict, support=Support.UNSUPPORTED, detail=details[verdict.node], hint=HINT)
        if verdict.node in details and verdict.support is not Support.UNSUPPORTED
        else verdict
        for verdict in verdicts
    ]


def _kind(value: ir.Value) -> str:
    return "a sequence" if isinstance(value.type, ir.SequenceType) else "an optional value"
