"""Gives verdicts on nodes: by ONNX Runtime on this machine, by a session of the device's provider, or by a table."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.execution.processor_layouts import laid_out_nodes
from edgekit.model import Model, node_name, op_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_onnxruntime import qnn, webgpu
from edgekit_onnxruntime.assignment import is_available, with_unique_names
from edgekit_onnxruntime.by_session import session_verdicts
from edgekit_onnxruntime.by_table import measured_verdicts, table_verdicts
from edgekit_onnxruntime.departures import refused_when_optimized
from edgekit_onnxruntime.devices import NOT_STARTED, devices
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.node_verdicts import CONSTANT, unknown
from edgekit_onnxruntime.session import CPU_PROVIDER, RECORD_ASSIGNMENT, session_options

SHARES_CPU_KERNELS = (CPU_PROVIDER, "wasm")
"""The CPU provider, and providers that consist of its kernels, compiled for another processor."""
SAME_KERNELS = "checked with this machine's CPU provider, whose kernels are built from the same source"


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """The verdict on every node for the profile's device, with nodes of subgraphs in the order of the graph.

    If the device's provider is available here, a session with it decides; otherwise the device's table, if it has one.
    Nodes that are laid out for one kind of processor are refused for every device: this machine's processor may be of
    that kind, and the user's of another.
    """
    laid_out = {gap.node: gap for gap in laid_out_nodes(model.graph_model)}
    found = zip(model.graph_model.graph.all_nodes(), _verdicts_of_device(model, profile), strict=True)
    return [_refused(node, gap) if (gap := laid_out.get(node_name(node))) else verdict for node, verdict in found]


def _verdicts_of_device(model: Model, profile: Profile) -> list[NodeVerdict]:
    local = cpu_verdicts(model)
    if profile.runs_here and "device" not in profile.options:
        return local
    if profile.options["provider"] in SHARES_CPU_KERNELS:
        return [replace(v, evidence=Evidence.HEURISTIC, detail=v.detail or SAME_KERNELS) for v in local]
    device = devices()[profile.options["device"]]
    if is_available(device.provider) and NOT_STARTED not in profile.options:
        return session_verdicts(model, local, device, device.simulator or {})
    if device.simulator is not None:
        reason = f"the compiler for the {device.unit} is not installed"
        return [unknown(v, reason, f"pip install '{qnn.REQUIREMENT}' brings it") for v in local]
    if device.table is not None:
        by_table = table_verdicts(model, local, device, device.table)
        return webgpu.with_stops(by_table, model) if device.provider == webgpu.PROVIDER else by_table
    if device.measured is not None:
        return measured_verdicts(model, local, device, device.measured)
    hint = f"run `edgekit check` on a machine with the hardware, with an ONNX Runtime that has the {device.provider}"
    return [unknown(v, device.unknown_because, hint) for v in local]


def cpu_verdicts(model: Model) -> list[NodeVerdict]:
    """The verdict on every node for the CPU provider of this machine's ONNX Runtime, by opening a session.

    Nodes of subgraphs are included, in the order of the graph.
    """
    options = session_options(optimize="DISABLED")
    options.add_session_config_entry(RECORD_ASSIGNMENT, "1")
    options.enable_mem_reuse = False  # the memory plan takes minutes for 15,000 nodes, and nothing is run here
    nodes = list(model.graph.all_nodes())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        renamed = with_unique_names(model)
        renamed.save(path)
        try:
            session = open_session(path, options)
        except UnsupportedOpsError as error:
            gaps = {gap.node: gap for gap in error.gaps}
            typed = ShapeInferencePass()(renamed.graph_model).model.graph.all_nodes()
            return [
                _judged_apart(node, twin, gaps.get(twin.name or "")) for node, twin in zip(nodes, typed, strict=True)
            ]
        assigned = {
            node.name: subgraph.ep_name
            for subgraph in session.get_provider_graph_assignment_info()
            for node in subgraph.get_nodes()
        }
    refused = {gap.node: gap for gap in refused_when_optimized(model)}
    return [
        _refused(node, refused[node_name(node)])
        if node_name(node) in refused
        else _judged_together(node, assigned.get(f"node{position}"))
        for position, node in enumerate(nodes)
    ]


def _refused(node: ir.Node, gap: OpGap) -> NodeVerdict:
    """The verdict on a node that keeps a session from opening."""
    return NodeVerdict(
        node=node_name(node),
        op_type=op_name(node),
        support=Support.UNSUPPORTED,
        evidence=Evidence.COMPILED,
        detail=gap.reason,
        hint=gap.hint,
    )


def _judged_apart(node: ir.Node, typed: ir.Node, gap: OpGap | None) -> NodeVerdict:
    """The verdict on a node that was probed in a model of its own, which requires the types of its inputs."""
    if gap is None and any(value is not None and value.dtype is None for value in typed.inputs):
        detail = "the types of its inputs are not known"
        return NodeVerdict(
            node=node_name(node),
            op_type=op_name(node),
            support=Support.UNKNOWN,
            evidence=Evidence.UNKNOWN,
            detail=detail,
        )
    if gap is None:
        return NodeVerdict(
            node=node_name(node),
            op_type=op_name(node),
            support=Support.SUPPORTED,
            evidence=Evidence.COMPILED,
            unit="CPU",
        )
    return _refused(node, gap)


def _judged_together(node: ir.Node, provider: str | None) -> NodeVerdict:
    unit = "CPU" if provider is None else provider.removesuffix("ExecutionProvider")
    support, detail = Support.SUPPORTED, ""
    if provider is None and node.op_type == CONSTANT:
        detail = "becomes an initializer"
    elif provider is None:
        support, detail = Support.DECOMPOSED, "ONNX Runtime replaces it by the operator's function body"
    return NodeVerdict(
        node=node_name(node),
        op_type=op_name(node),
        support=support,
        evidence=Evidence.COMPILED,
        unit=unit,
        detail=detail,
    )
