"""Judges nodes by what ONNX Runtime does with them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model, node_name, op_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.mobile_table import supported_operators
from edgekit_onnxruntime.session import CPU_PROVIDER, session_options

SHARES_CPU_KERNELS = (CPU_PROVIDER, "wasm")
"""Providers made of the CPU provider's kernels, compiled for another processor."""


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node on the profile's device, subgraphs' nodes included, where they stand."""
    local = cpu_verdicts(model)
    if profile.runs_here:
        return local
    unit = profile.options["provider"].removesuffix("ExecutionProvider")
    if profile.options["provider"] in SHARES_CPU_KERNELS:
        return [replace(verdict, evidence=Evidence.HEURISTIC) for verdict in local]
    if "table" in profile.options:
        return [_by_table(verdict, profile.options["table"], unit) for verdict in local]
    return [replace(verdict, support=Support.UNKNOWN, evidence=Evidence.UNKNOWN, unit="") for verdict in local]


def _by_table(on_cpu: NodeVerdict, table: str, unit: str) -> NodeVerdict:
    """What ONNX Runtime's table for the provider says; what is not in it stays on the CPU."""
    operators = supported_operators(table)
    condition = operators.get(on_cpu.op_type.casefold())
    if condition is not None:
        return replace(on_cpu, support=Support.SUPPORTED, evidence=Evidence.TABLE, unit=unit.upper(), detail=condition)
    if on_cpu.support in (Support.UNSUPPORTED, Support.UNKNOWN):
        return on_cpu
    return replace(on_cpu, support=Support.FALLS_BACK, evidence=Evidence.TABLE, detail=f"not in the table of {unit}")


def cpu_verdicts(model: Model) -> list[NodeVerdict]:
    """What the CPU provider of this machine's ONNX Runtime does with every node, as a session tells it.

    Nodes of subgraphs are included, where they stand.
    """
    options = session_options(optimize="DISABLED")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    nodes = list(model.graph.all_nodes())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        renamed = _with_unique_names(model)
        renamed.save(path)
        try:
            session = open_session(path, options)
        except UnsupportedOpsError as error:
            gaps = {gap.node: gap.reason for gap in error.gaps}
            typed = ShapeInferencePass()(renamed.graph_model).model.graph.all_nodes()
            return [
                _judged_apart(node, twin, gaps.get(twin.name or "")) for node, twin in zip(nodes, typed, strict=True)
            ]
        assigned = {
            node.name: subgraph.ep_name
            for subgraph in session.get_provider_graph_assignment_info()
            for node in subgraph.get_nodes()
        }
    return [_judged_together(node, assigned.get(f"node{position}")) for position, node in enumerate(nodes)]


def _with_unique_names(model: Model) -> Model:
    """A copy whose nodes are called ``node0``, ``node1``, … in graph order."""
    copy = model.with_graph(model.graph_model.clone())
    for position, node in enumerate(copy.graph.all_nodes()):
        node.name = f"node{position}"
    return copy


def _judged_apart(node: ir.Node, typed: ir.Node, reason: str | None) -> NodeVerdict:
    """The verdict on a node that was probed in a model of its own, which takes the types of its inputs."""
    if reason is None and any(value is not None and value.dtype is None for value in typed.inputs):
        detail = "the types of its inputs are not known"
        return NodeVerdict(node_name(node), op_name(node), Support.UNKNOWN, Evidence.UNKNOWN, detail=detail)
    if reason is None:
        return NodeVerdict(node_name(node), op_name(node), Support.SUPPORTED, Evidence.COMPILED, "CPU")
    return NodeVerdict(node_name(node), op_name(node), Support.UNSUPPORTED, Evidence.COMPILED, detail=reason)


def _judged_together(node: ir.Node, provider: str | None) -> NodeVerdict:
    unit = "CPU" if provider is None else provider.removesuffix("ExecutionProvider")
    support, detail = Support.SUPPORTED, ""
    if provider is None and node.op_type == "Constant":
        detail = "becomes an initializer"
    elif provider is None:
        support, detail = Support.DECOMPOSED, "ONNX Runtime replaces it by the operator's function body"
    return NodeVerdict(node_name(node), op_name(node), support, Evidence.COMPILED, unit, detail)
