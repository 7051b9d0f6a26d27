"""Judges nodes by a trial of the conversion: the frontend's registry is the evidence."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node of the main graph, in graph order.

    The unit stays open: Core ML places operations when it loads a program, on the device.

    Raises:
        edgekit.errors.InputError: An input's shape is neither fixed nor open.
    """
    from edgekit_coreml.frontend import registry
    from edgekit_coreml.frontend.lowering import PATH_SEPARATOR, domain_of, schema_of
    from edgekit_coreml.frontend.program import build_program

    target = profile.options["deployment_target"]
    program = build_program(model.graph_model, target, model.source, model.open_dims)
    gaps = {gap.node.split(PATH_SEPARATOR)[0]: gap for gap in program.gaps}

    def verdict(node: ir.Node) -> NodeVerdict:
        gap: OpGap | None = gaps.get(node_name(node))
        if gap is not None:
            return _verdict(node, Support.UNSUPPORTED, gap.reason, gap.hint)
        schema = schema_of(node, model.graph_model.opset_imports)
        version = schema.since_version if schema is not None else 1
        if registry.find(domain_of(node), node.op_type, version) is None:
            return _verdict(node, Support.DECOMPOSED, "by the function body that defines it, or folded")
        return _verdict(node, Support.SUPPORTED, f"has a lowering for {target}")

    return [verdict(node) for node in model.graph]


def _verdict(node: ir.Node, support: Support, detail: str, hint: str = "") -> NodeVerdict:
    return NodeVerdict(node_name(node), op_name(node), support, Evidence.REGISTRY, detail=detail, hint=hint)
