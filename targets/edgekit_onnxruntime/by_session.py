"""Gives verdicts on nodes by where a session with the device's own provider puts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, bodies, op_name
from edgekit.operators.hints import replacement_hint
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_onnxruntime.assignment import Assignment, CompilerError, SilentCompilerError, assign
from edgekit_onnxruntime.by_parts import Parts, in_parts
from edgekit_onnxruntime.conditions import has_open_shapes, shapes_hint
from edgekit_onnxruntime.devices import Device
from edgekit_onnxruntime.node_verdicts import CONSTANT, fallen_back, supported, unknown


def session_verdicts(
    model: Model, local: list[NodeVerdict], device: Device, options: Mapping[str, str]
) -> list[NodeVerdict]:
    """A verdict for every node.

    Args:
        model: The model.
        local: The CPU provider's verdict on each node.
        device: The device, whose provider is available here.
        options: The provider's options.
    """
    typed = infer_shapes(model, strict=False)
    judge = _Judge(device, dict(_holders(typed.graph)), model.opset)
    nodes = list(zip(local, typed.graph.all_nodes(), strict=True))
    try:
        assignment = assign(model, device.provider, options)
    except CompilerError as error:
        if any(v.support is Support.UNSUPPORTED for v in local):  # no session opens the model, whatever the provider
            return [v if v.support is Support.UNSUPPORTED else unknown(v, str(error)) for v in local]
        if isinstance(error, SilentCompilerError):  # a part may take as long
            return [unknown(v, f"the compiler {error}") for v in local]
        parts = in_parts(typed, lambda part: assign(part, device.provider, options))
        return [judge.of_parts(on_cpu, node, parts, error) for on_cpu, node in nodes]
    return [judge.verdict(on_cpu, node, f"node{place}", assignment) for place, (on_cpu, node) in enumerate(nodes)]


@dataclass(frozen=True)
class _Judge:
    """Gives verdicts on nodes for a device."""

    device: Device
    holders: Mapping[ir.Node, ir.Node]
    """For each node in a body, the node that holds the body."""
    opset: int

    def verdict(self, on_cpu: NodeVerdict, node: ir.Node, name: str, assignment: Assignment) -> NodeVerdict:
        """The verdict on a node whose name in the assignment is ``name``."""
        device = self.device
        if on_cpu.op_type == CONSTANT:
            return on_cpu
        if name in assignment.left_to_cpu:
            why = assignment.reasons.get(name, "")
            if not why and node in self.holders:
                detail = f"the body of {op_name(self.holders[node])} stays on the {device.fallback}"
                return fallen_back(on_cpu, device, Evidence.COMPILED, detail, "")
            detail = f"the {device.unit}'s compiler left it: {why or 'it does not say why'}"
            hint = shapes_hint(node) if has_open_shapes(node) else replacement_hint(node, self.opset)
            return fallen_back(on_cpu, device, Evidence.COMPILED, detail, hint)
        if name in assignment.accelerated:
            return supported(on_cpu, device, Evidence.COMPILED)
        if node.op_type in assignment.added_on_cpu:
            return unknown(on_cpu, "ONNX Runtime replaced it, and does not report where the replacement runs")
        detail = f"merged with others when they got the {device.unit}'s memory layout"
        return replace(supported(on_cpu, device, Evidence.COMPILED, detail), support=Support.DECOMPOSED)

    def of_parts(self, on_cpu: NodeVerdict, node: ir.Node, parts: Parts, refusal: CompilerError) -> NodeVerdict:
        """The verdict on a node of a model that is refused as a whole.

        Args:
            on_cpu: The CPU provider's verdict.
            node: The node.
            parts: The results of compiling parts of the model.
            refusal: Why the whole model is refused.
        """
        name = node.name or ""
        for names, assignment in parts.compiled:
            if name in names:
                found = self.verdict(on_cpu, node, names[name], assignment)
                apart = f"compiled as a part of the model only: the compiler does not take the whole model: {refusal}"
                return replace(found, detail="; ".join(filter(None, (found.detail, apart))))
        if name in parts.refused:
            detail = f"the {self.device.unit}'s compiler does not take it alone: {parts.refused[name]}"
            return fallen_back(on_cpu, self.device, Evidence.COMPILED, detail, replacement_hint(node, self.opset))
        hint = "`edgekit extract` cuts out parts, each of which may compile"
        return unknown(on_cpu, f"the compiler does not take the model: {refusal}", hint)


def _holders(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Every node inside a body, with the node that holds the body."""
    for node in graph:
        for body in bodies(node):
            yield from ((inner, node) for inner in body)
            yield from _holders(body)
