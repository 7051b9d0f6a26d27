"""Judges nodes by what OpenVINO does with them."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model, node_name, op_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node, subgraphs' nodes included: by the frontend, then by the device's plugin."""
    import openvino

    from edgekit_openvino.frontend import convert_model

    nodes = list(model.graph.all_nodes())
    device = profile.options["device"]
    try:
        conversion = convert_model(model)
    except UnsupportedOpsError as error:
        reasons = {gap.node: gap.reason for gap in error.gaps}
        return [_by_frontend(node, reasons) for node in nodes]
    core = openvino.Core()
    if device not in core.available_devices:
        detail = f"OpenVINO converts it; the {device} plugin compiles beside the hardware only, and there is none here"
        return [_verdict(node, Support.UNKNOWN, Evidence.UNKNOWN, detail=detail) for node in nodes]
    refused = _refused(core.query_model(conversion.network, device), conversion.network)
    return [
        _verdict(node, Support.DECOMPOSED, Evidence.COMPILED, device, "replaced by its definition in the ONNX standard")
        if op_name(node) in conversion.expanded
        else _by_plugin(node, refused, device)
        for node in nodes
    ]


def _by_frontend(node: ir.Node, reasons: dict[str, str]) -> NodeVerdict:
    reason = reasons.get(node_name(node))
    if reason is None:
        return _verdict(
            node, Support.UNKNOWN, Evidence.UNKNOWN, detail="other nodes keep the model from being compiled"
        )
    return _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail=reason)


def _by_plugin(node: ir.Node, refused: set[str], device: str) -> NodeVerdict:
    """What the plugin says of the operations that the node became: they bear the name of the node or of an output."""
    if refused & {node.name, *(value.name for value in node.outputs)}:
        return _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail=f"the {device} plugin does not take it")
    return _verdict(node, Support.SUPPORTED, Evidence.COMPILED, device)


def _refused(taken: dict[str, str], converted: Any) -> set[str]:
    """Names of the operations, and of the values that they make, that the plugin did not take."""
    operations = [operation for operation in converted.get_ops() if operation.get_friendly_name() not in taken]
    values = {name for operation in operations for port in operation.outputs() for name in port.names}
    return values | {operation.get_friendly_name() for operation in operations}


def _verdict(node: ir.Node, support: Support, evidence: Evidence, unit: str = "", detail: str = "") -> NodeVerdict:
    return NodeVerdict(node_name(node), op_name(node), support, evidence, unit, detail)
