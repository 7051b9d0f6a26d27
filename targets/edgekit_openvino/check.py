"""Judges nodes by what OpenVINO does with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name, op_name
from edgekit.operators.hints import replacement_hint
from edgekit.operators.measured import MeasuredTable
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_openvino.cores import new_core

MEASURED = Path(__file__).with_name("measured")
"""Folder with a table of measurements for each device, named as OpenVINO names the device."""
_SIZES_HINT = "fix the inputs' shapes with --dim or --shape"


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """Returns a verdict for every node, subgraphs' nodes included: by the frontend, then by the device's plugin.

    The plugin has to compile the model: a claim alone does not count. If it does not, it is asked which operations it
    takes.
    """
    from edgekit_openvino.frontend import convert_model

    nodes = list(model.graph.all_nodes())
    device = profile.options["device"]
    try:
        conversion = convert_model(model)
    except UnsupportedOpsError as error:
        gaps = {gap.node: gap for gap in error.gaps}
        judged = [_by_frontend(node, gaps, model.opset) for node in nodes]
        if device in new_core().available_devices:
            return judged
        known = zip(judged, _by_table(model, device), strict=True)
        return [verdict if verdict.support is Support.UNSUPPORTED else measured for verdict, measured in known]
    core = new_core()
    if device not in core.available_devices:
        return _by_table(model, device)
    refused: set[str] = set()
    try:
        core.compile_model(conversion.network, device)
    except RuntimeError as not_compiled:
        try:
            refused = _refused(core.query_model(conversion.network, device), conversion.network)
        except RuntimeError as error:
            return _stopped_at(nodes, error, device)
        if not refused:
            return _not_compiled(nodes, not_compiled, device)
    return [
        _verdict(node, Support.DECOMPOSED, Evidence.COMPILED, device, "replaced by its definition in the ONNX standard")
        if op_name(node) in conversion.expanded
        else _by_plugin(node, refused, device, model.opset)
        for node in nodes
    ]


def _stopped_at(nodes: Sequence[ir.Node], error: RuntimeError, device: str) -> list[NodeVerdict]:
    """Returns the verdicts for a model that the plugin gave up at one node, whose sizes it cannot work out."""
    from edgekit_openvino.report import last_line, operation_named

    named = operation_named(str(error))
    detail = f"the {device} plugin cannot work out its sizes: {last_line(error)}"
    others = "not checked: the plugin stopped at another node"
    found = [node for node in nodes if named in {node.name, *(value.name for value in node.outputs)}]
    return [
        _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail=detail, hint=_SIZES_HINT)
        if node in found
        else _verdict(node, Support.UNKNOWN, Evidence.UNKNOWN, detail=others if found else detail)
        for node in nodes
    ]


def _not_compiled(nodes: Sequence[ir.Node], error: RuntimeError, device: str) -> list[NodeVerdict]:
    """Returns the verdicts for a model that the plugin claims and does not compile; its error may name a node."""
    from edgekit_openvino.report import last_line, operation_named

    named = operation_named(str(error))
    found = [node for node in nodes if named in {node.name, *(value.name for value in node.outputs)}]
    detail = f"the {device} plugin cannot compile the model: {last_line(error)}"
    return [
        _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail="; ".join([detail, *_differing_ranks(node)]))
        if node in found
        else _verdict(node, Support.UNKNOWN, Evidence.UNKNOWN, detail=detail)
        for node in nodes
    ]


def _differing_ranks(node: ir.Node) -> Iterator[str]:
    """Yields a sentence for each output of an If whose number of dimensions differs between the branches."""
    if node.op_type == "If":
        yes, no = (node.attributes[name].as_graph().outputs for name in ("then_branch", "else_branch"))
        for output, *branches in zip(node.outputs, yes, no, strict=True):
            ranks = [None if value.shape is None else len(value.shape) for value in branches]
            if None not in ranks and ranks[0] != ranks[1]:
                yield f"{output.name!r} has {ranks[0]} dimensions in one branch and {ranks[1]} in the other"


def _by_table(model: Model, device: str) -> list[NodeVerdict]:
    """Returns verdicts for a device that this machine lacks, by how often similar cases were compiled elsewhere."""
    converts = f"OpenVINO converts it; the {device} plugin compiles beside the hardware only, and there is none here"
    hint = f"run `edgekit check` on a machine with the {device}"
    file = MEASURED / f"{device}.json"
    table = MeasuredTable.read(file) if file.is_file() else None
    typed = infer_shapes(model, strict=False)
    found = []
    for node in typed.graph.all_nodes():
        if node.op_type == "Constant":
            found.append(_verdict(node, Support.SUPPORTED, Evidence.COMPILED, device, "becomes a constant"))
            continue
        cases = None if table is None else table.cases_like(node, typed.graph_model.opset_imports.get(node.domain, 1))
        measured = "" if table is None or cases is None else table.text_on(cases)
        if cases is None or cases.is_taken is None:
            detail = f"{converts}; {measured}" if measured else converts
            found.append(_verdict(node, Support.UNKNOWN, Evidence.UNKNOWN, detail=detail, hint=hint))
        elif cases.is_taken:
            found.append(_verdict(node, Support.SUPPORTED, Evidence.TABLE, device, measured))
        else:
            rest = f"OpenVINO's device HETERO:{device},CPU runs on the CPU what the {device} leaves"
            found.append(_verdict(node, Support.FALLS_BACK, Evidence.TABLE, "CPU", measured, rest))
    return found


def _by_frontend(node: ir.Node, gaps: dict[str, OpGap], opset: int) -> NodeVerdict:
    gap = gaps.get(node_name(node))
    if gap is None:
        return _verdict(
            node, Support.UNKNOWN, Evidence.UNKNOWN, detail="other nodes keep the model from being compiled"
        )
    hint = gap.hint or replacement_hint(node, opset)
    return _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail=gap.reason, hint=hint)


def _by_plugin(node: ir.Node, refused: set[str], device: str, opset: int) -> NodeVerdict:
    """Returns the plugin's verdict on a node, whose operations bear the name of the node or of one of its outputs."""
    if refused & {node.name, *(value.name for value in node.outputs)}:
        detail = "; ".join([f"the {device} plugin does not take it", *_differing_ranks(node)])
        hint = replacement_hint(node, opset)
        return _verdict(node, Support.UNSUPPORTED, Evidence.COMPILED, detail=detail, hint=hint)
    return _verdict(node, Support.SUPPORTED, Evidence.COMPILED, device)


def _refused(taken: dict[str, str], converted: Any) -> set[str]:
    """Returns the names of the operations that the plugin did not take, and of the values that they make."""
    operations = [operation for operation in converted.get_ops() if operation.get_friendly_name() not in taken]
    values = {name for operation in operations for port in operation.outputs() for name in port.names}
    return values | {operation.get_friendly_name() for operation in operations}


def _verdict(
    node: ir.Node, support: Support, evidence: Evidence, unit: str = "", detail: str = "", hint: str = ""
) -> NodeVerdict:
    return NodeVerdict(
        node=node_name(node),
        op_type=op_name(node),
        support=support,
        evidence=evidence,
        unit=unit,
        detail=detail,
        hint=hint,
    )
