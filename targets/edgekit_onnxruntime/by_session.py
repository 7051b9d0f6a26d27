"""Judges nodes by where a session with the device's own provider puts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from edgekit.graph.shapes import infer_shapes
from edgekit.model import Model, bodies, op_name
from edgekit.operators.hints import replacement_hint
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_onnxruntime.assignment import CompilerError, assign
from edgekit_onnxruntime.conditions import FIX_SHAPES, has_open_shapes
from edgekit_onnxruntime.devices import Device
from edgekit_onnxruntime.fates import CONSTANT, fallen_back, unknown


def session_verdicts(
    model: Model, local: list[NodeVerdict], device: Device, options: Mapping[str, str]
) -> list[NodeVerdict]:
    """A verdict for every node.

    Args:
        model: The model.
        local: What the CPU provider does with each node.
        device: The device, whose provider is available here.
        options: The provider's options.
    """
    try:
        assignment = assign(model, device.provider, options)
    except CompilerError as error:
        if any(v.support is Support.UNSUPPORTED for v in local):  # no session takes it, whatever the provider
            return [v if v.support is Support.UNSUPPORTED else unknown(v, str(error)) for v in local]
        hint = "`edgekit extract` cuts out parts, each of which may compile"
        return [unknown(v, f"the compiler does not take the model: {error}", hint) for v in local]

    typed = infer_shapes(model, strict=False).graph
    holders = dict(_holders(typed))

    def verdict(position: int, on_cpu: NodeVerdict, original: ir.Node) -> NodeVerdict:
        name = f"node{position}"
        if on_cpu.op_type == CONSTANT:
            return on_cpu
        if name in assignment.left_to_cpu:
            why = assignment.reasons.get(name, "")
            if not why and original in holders:
                detail = f"the body of {op_name(holders[original])} stays on the {device.fallback}"
                return fallen_back(on_cpu, device, Evidence.COMPILED, detail, "")
            detail = f"the {device.unit}'s compiler left it: {why or 'it does not say why'}"
            hint = FIX_SHAPES if has_open_shapes(original) else replacement_hint(original, model.opset)
            return fallen_back(on_cpu, device, Evidence.COMPILED, detail, hint)
        if name in assignment.accelerated:
            return NodeVerdict(on_cpu.node, on_cpu.op_type, Support.SUPPORTED, Evidence.COMPILED, device.unit)
        if original.op_type in assignment.added_on_cpu:
            return unknown(on_cpu, "ONNX Runtime put something else in its place, and did not tell where that runs")
        detail = f"merged with others when they got the {device.unit}'s memory layout"
        return NodeVerdict(on_cpu.node, on_cpu.op_type, Support.DECOMPOSED, Evidence.COMPILED, device.unit, detail)

    return [verdict(position, *each) for position, each in enumerate(zip(local, typed.all_nodes(), strict=True))]


def _holders(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Every node inside a body, with the node that holds the body."""
    for node in graph:
        for body in bodies(node):
            yield from ((inner, node) for inner in body)
            yield from _holders(body)
