"""Judges nodes by what OpenVINO does with them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx_ir as ir

from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model, node_name, op_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node, subgraphs' nodes included: by the frontend, then by the device's plugin."""
    import openvino

    from edgekit_openvino.convert import read_onnx

    nodes = list(model.graph.all_nodes())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        model.save(source)
        try:
            converted = read_onnx(source)
        except UnsupportedOpsError as error:
            reasons = {gap.op_type: gap.reason for gap in error.gaps}
            return [
                NodeVerdict(
                    node_name(node),
                    op_name(node),
                    Support.UNSUPPORTED,
                    Evidence.COMPILED,
                    detail=reasons[op_name(node)],
                )
                if op_name(node) in reasons
                else NodeVerdict(node_name(node), op_name(node), Support.UNKNOWN, Evidence.UNKNOWN)
                for node in nodes
            ]
        device = profile.options["device"]
        if device not in openvino.Core().available_devices:
            detail = f"no {device} on this machine, and its plugin compiles only beside the hardware"
            return [
                NodeVerdict(node_name(node), op_name(node), Support.UNKNOWN, Evidence.UNKNOWN, detail=detail)
                for node in nodes
            ]
        taken = openvino.Core().query_model(converted, device)
        refused = {op.get_friendly_name() for op in converted.get_ops()} - set(taken)
        return [_by_plugin(node, node_name(node), op_name(node), refused, device) for node in nodes]


def _by_plugin(node: ir.Node, name: str, op: str, refused: set[str], device: str) -> NodeVerdict:
    """The plugin's word on what the node became: operations bear the node's or its outputs' names."""
    names = {node.name, *(value.name for value in node.outputs)}
    if names & refused:
        return NodeVerdict(
            name, op, Support.UNSUPPORTED, Evidence.COMPILED, detail=f"the {device} plugin does not take it"
        )
    return NodeVerdict(name, op, Support.SUPPORTED, Evidence.COMPILED, device)
