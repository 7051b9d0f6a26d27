"""Decides which nodes are supported by trying both steps: from ONNX to MIL, and from MIL to Core AI.

The evidence is the registries of lowerings of both steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit.model import Model
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_coreai.conversion import PROGRAM_TARGET, operator_set
from edgekit_mlprogram.verdicts import trial, verdict_of


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """Returns a verdict for every node of the main graph, in graph order; bodies convert with their node.

    Raises:
        edgekit.errors.InputError: An input's shape is not fixed.
    """
    from edgekit_mil.lowering.nodes import mil_name

    built, gaps = trial(model, PROGRAM_TARGET)
    lacking = dict(_untranslated(built.program)) if not gaps else {}

    def verdict(node: Any) -> NodeVerdict:
        found = verdict_of(model, node, gaps, f"has a lowering for {profile.options['deployment_target']}")
        names = [mil_name(value.name or "") for value in node.outputs]
        operation = next((kind for name, kind in lacking.items() if name in names), None)
        if operation is not None and found.support is not Support.UNSUPPORTED:
            reason = f"becomes the MIL operation {operation}, which Core AI's operations do not express"
            return NodeVerdict(
                node=found.node,
                op_type=found.op_type,
                support=Support.UNSUPPORTED,
                evidence=Evidence.REGISTRY,
                detail=reason,
            )
        return found

    return [verdict(node) for node in model.graph]


def _untranslated(program: Any) -> Iterator[tuple[str, str]]:
    """Yields the output's name and the type of each operation that has no lowering to Core AI."""
    from edgekit_coreai.translation.registry import find_lowering, lowered_operations

    lowered_operations()
    for function in program.functions.values():
        for operation in _walk(function):
            if operation.op_type != "const" and find_lowering(operation.op_type, operator_set()) is None:
                yield operation.outputs[0].name if operation.outputs else operation.name, operation.op_type


def _walk(block: Any) -> Iterator[Any]:
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from _walk(inner)
