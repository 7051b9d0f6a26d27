"""Gives verdicts on nodes by a device's table: of the operators that it supports, or of cases that were measured."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.operators.hints import replacement_hint
from edgekit.operators.measured import MeasuredTable
from edgekit.target import Evidence, NodeVerdict
from edgekit_onnxruntime.conditions import unmet_conditions
from edgekit_onnxruntime.devices import Device, Table
from edgekit_onnxruntime.node_verdicts import CONSTANT, fallen_back, supported, unknown


def table_verdicts(model: Model, local: list[NodeVerdict], device: Device, table: Table) -> list[NodeVerdict]:
    """A verdict for every node; operators that are not in the table fall back if the CPU provider supports them.

    Args:
        model: The model.
        local: The CPU provider's verdict on each node.
        device: The device.
        table: The device's table.
    """
    typed = infer_shapes(model, strict=False)
    opsets = typed.graph_model.opset_imports

    def verdict(on_cpu: NodeVerdict, node: ir.Node) -> NodeVerdict:
        if on_cpu.op_type == CONSTANT:
            return on_cpu
        operator = table.find(on_cpu.op_type)
        if operator is None:
            hint = replacement_hint(node, model.opset, lambda name: table.find(name) is not None)
            return fallen_back(on_cpu, device, Evidence.TABLE, f"not in the table of {device.unit}", hint)
        failed = list(unmet_conditions(node, operator, table, opsets.get(node.domain, 1)))
        if failed:
            reason, hint = ("; ".join(texts) for texts in zip(*((u.reason, u.hint) for u in failed), strict=True))
            return fallen_back(on_cpu, device, Evidence.TABLE, reason, hint)
        detail = f"{operator.note} (not tested here)" if operator.note else ""
        return supported(on_cpu, device, Evidence.TABLE, detail)

    return [verdict(*pair) for pair in zip(local, typed.graph.all_nodes(), strict=True)]


def measured_verdicts(
    model: Model, local: list[NodeVerdict], device: Device, table: MeasuredTable
) -> list[NodeVerdict]:
    """A verdict for every node by similar measured cases; nodes like those that the device left fall back.

    Args:
        model: The model.
        local: The CPU provider's verdict on each node.
        device: The device.
        table: The cases that were measured with the device's compiler.
    """
    typed = infer_shapes(model, strict=False)
    opsets = typed.graph_model.opset_imports
    hint = f"run `edgekit check` on a machine with the hardware, with an ONNX Runtime that has the {device.provider}"

    def verdict(on_cpu: NodeVerdict, node: ir.Node) -> NodeVerdict:
        if on_cpu.op_type == CONSTANT:
            return on_cpu
        cases = table.cases_like(node, opsets.get(node.domain, 1))
        if cases is None:
            return unknown(on_cpu, f"{on_cpu.op_type} was not measured ({table.version})", hint)
        measured = table.text_on(cases)
        if cases.is_taken is None:
            return unknown(on_cpu, measured, hint)
        if not cases.is_taken:
            return fallen_back(on_cpu, device, Evidence.TABLE, measured, "")
        return supported(on_cpu, device, Evidence.TABLE, measured)

    return [verdict(*pair) for pair in zip(local, typed.graph.all_nodes(), strict=True)]
