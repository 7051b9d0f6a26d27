"""Judges nodes by what ONNX Runtime does with them: here, in a simulator, or by a table."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.model import Model, node_name, op_name
from edgekit.operator_hints import replacement_hint
from edgekit.shapes import infer_shapes
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.conditions import unmet_conditions
from edgekit_onnxruntime.devices import Device, Table, devices
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.session import CPU_PROVIDER, session_options

SHARES_CPU_KERNELS = (CPU_PROVIDER, "wasm")
"""Providers made of the CPU provider's kernels, compiled for another processor."""
CONSTANT = "Constant"
SAME_KERNELS = "the same kernels' source, built for another processor, as this machine's CPU provider"


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node on the profile's device, subgraphs' nodes included, where they stand."""
    local = cpu_verdicts(model)
    if profile.runs_here:
        return local
    if profile.options["provider"] in SHARES_CPU_KERNELS:
        return [replace(v, evidence=Evidence.HEURISTIC, detail=v.detail or SAME_KERNELS) for v in local]
    device = devices()[profile.options["device"]]
    if device.simulator is not None:
        return _by_compiler(model, local, device, device.simulator)
    if device.table is not None:
        return _by_table(model, local, device, device.table)
    return _unknown(local, device.unknown_because, "")


def _unknown(local: list[NodeVerdict], reason: str, hint: str) -> list[NodeVerdict]:
    return [NodeVerdict(v.node, v.op_type, Support.UNKNOWN, Evidence.UNKNOWN, detail=reason, hint=hint) for v in local]


def _by_table(model: Model, local: list[NodeVerdict], device: Device, table: Table) -> list[NodeVerdict]:
    """What the table says of each node; what it does not have, the fallback takes."""
    typed = infer_shapes(model, strict=False)
    nodes = list(typed.graph.all_nodes())
    opsets = typed.graph_model.opset_imports

    def verdict(on_cpu: NodeVerdict, node: ir.Node) -> NodeVerdict:
        if on_cpu.op_type == CONSTANT:
            return on_cpu
        operator = table.find(on_cpu.op_type)
        if operator is None:
            hint = replacement_hint(node, model.opset, lambda name: table.find(name) is not None)
            return _fallen_back(on_cpu, device, Evidence.TABLE, f"not in the table of {device.unit}", hint)
        failed = list(unmet_conditions(node, operator, table, opsets.get(node.domain, 1)))
        if failed:
            reason, hint = ("; ".join(texts) for texts in zip(*((u.reason, u.hint) for u in failed), strict=True))
            return _fallen_back(on_cpu, device, Evidence.TABLE, reason, hint)
        detail = f"{operator.note} (not tested here)" if operator.note else ""
        return NodeVerdict(on_cpu.node, on_cpu.op_type, Support.SUPPORTED, Evidence.TABLE, device.unit, detail)

    return [verdict(on_cpu, node) for on_cpu, node in zip(local, nodes, strict=True)]


def _fallen_back(on_cpu: NodeVerdict, device: Device, evidence: Evidence, detail: str, hint: str) -> NodeVerdict:
    """A node that the device's provider leaves; where the CPU's kernels do not have it either, nothing runs it."""
    if on_cpu.support in (Support.UNSUPPORTED, Support.UNKNOWN):
        return replace(on_cpu, detail=f"{detail}; {on_cpu.detail}", hint=on_cpu.hint or hint)
    return replace(
        on_cpu, support=Support.FALLS_BACK, evidence=evidence, unit=device.fallback, detail=detail, hint=hint
    )


def _by_compiler(
    model: Model, local: list[NodeVerdict], device: Device, simulator: Mapping[str, str]
) -> list[NodeVerdict]:
    """Where a session with the device's compiler puts each node."""
    if not qnn.is_installed():
        return _unknown(
            local, f"the compiler for the {device.unit} is not installed", f"pip install '{qnn.EXTRA}' brings it"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        _with_unique_names(model).save(path)
        try:
            assignment = qnn.compile_model(path, simulator)
        except qnn.CompilerError as error:
            if any(v.support is Support.UNSUPPORTED for v in local):  # no session takes it, whatever the provider
                return [v if v.support is Support.UNSUPPORTED else _unknown([v], str(error), "")[0] for v in local]
            hint = "`edgekit extract` cuts out parts, each of which may compile"
            return _unknown(local, f"the compiler does not take the model: {error}", hint)
    on_cpu = [node for provider, nodes in assignment.subgraphs if provider == CPU_PROVIDER for node in nodes]
    left = {_original_name(name) for name, _ in on_cpu}
    placed = {_original_name(name) for _, nodes in assignment.subgraphs for name, _ in nodes}
    anonymous = {operator for name, operator in on_cpu if not _original_name(name)}

    def verdict(position: int, on_this_cpu: NodeVerdict, original: ir.Node) -> NodeVerdict:
        name = f"node{position}"
        if on_this_cpu.op_type == CONSTANT:
            return on_this_cpu
        if name in left:
            detail, hint = f"the {device.unit}'s compiler left it", replacement_hint(original, model.opset)
            return _fallen_back(on_this_cpu, device, Evidence.COMPILED, detail, hint)
        node, op_type = on_this_cpu.node, on_this_cpu.op_type
        if name in placed:
            return NodeVerdict(node, op_type, Support.SUPPORTED, Evidence.COMPILED, device.unit)
        if original.op_type in anonymous:
            detail = "ONNX Runtime put something else in its place, and did not tell where that runs"
            return NodeVerdict(node, op_type, Support.UNKNOWN, Evidence.UNKNOWN, detail=detail)
        detail = f"merged with others when they got the {device.unit}'s memory layout"
        return NodeVerdict(node, op_type, Support.DECOMPOSED, Evidence.COMPILED, device.unit, detail)

    nodes = model.graph.all_nodes()
    return [verdict(position, *each) for position, each in enumerate(zip(local, nodes, strict=True))]


OURS = re.compile(r"(?P<name>node\d+)(_token_\d+|/duplicated)*")
"""A name that :func:`_with_unique_names` gave, and what ONNX Runtime appends for a node's copy in another layout."""


def _original_name(name: str) -> str:
    """The name of the node that a node of the session stands for; empty for one that ONNX Runtime added."""
    match = OURS.fullmatch(name)
    return match["name"] if match else ""


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
    return [_judged_together(node, assigned.get(f"node{position}")) for position, node in enumerate(nodes)]


def _with_unique_names(model: Model) -> Model:
    """A copy whose nodes are called ``node0``, ``node1``, … in graph order."""
    copy = model.with_graph(model.graph_model.clone())
    for position, node in enumerate(copy.graph.all_nodes()):
        node.name = f"node{position}"
    return copy


def _judged_apart(node: ir.Node, typed: ir.Node, gap: OpGap | None) -> NodeVerdict:
    """The verdict on a node that was probed in a model of its own, which takes the types of its inputs."""
    if gap is None and any(value is not None and value.dtype is None for value in typed.inputs):
        detail = "the types of its inputs are not known"
        return NodeVerdict(node_name(node), op_name(node), Support.UNKNOWN, Evidence.UNKNOWN, detail=detail)
    if gap is None:
        return NodeVerdict(node_name(node), op_name(node), Support.SUPPORTED, Evidence.COMPILED, "CPU")
    return NodeVerdict(
        node_name(node), op_name(node), Support.UNSUPPORTED, Evidence.COMPILED, detail=gap.reason, hint=gap.hint
    )


def _judged_together(node: ir.Node, provider: str | None) -> NodeVerdict:
    unit = "CPU" if provider is None else provider.removesuffix("ExecutionProvider")
    support, detail = Support.SUPPORTED, ""
    if provider is None and node.op_type == CONSTANT:
        detail = "becomes an initializer"
    elif provider is None:
        support, detail = Support.DECOMPOSED, "ONNX Runtime replaces it by the operator's function body"
    return NodeVerdict(node_name(node), op_name(node), support, Evidence.COMPILED, unit, detail)
