"""Judges nodes by a trial of the conversion to MIL: the registry of lowerings is the evidence."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name
from edgekit.operators.hints import replacement_hint
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_mil.program.build import BuiltProgram


def trial(model: Model, target: str) -> tuple[BuiltProgram, dict[str, OpGap]]:
    """Returns the program as far as it converts, and each gap by the node of the main graph that contains it.

    Args:
        model: The model.
        target: The deployment target, which decides what operations there are.

    Raises:
        edgekit.errors.InputError: An input's shape is not fixed.
    """
    from edgekit_mil.lowering.nodes import PATH_SEPARATOR
    from edgekit_mil.program.build import build_program

    built = build_program(model.graph_model, target, model.source, model.open_dims)
    return built, {gap.node.split(PATH_SEPARATOR)[0]: gap for gap in built.gaps}


def verdict_of(model: Model, node: ir.Node, gaps: Mapping[str, OpGap], detail: str) -> NodeVerdict:
    """Returns the verdict on a node of the main graph.

    Args:
        model: Its model.
        node: The node.
        gaps: From :func:`trial`.
        detail: The verdict's detail if the node has a lowering.
    """
    from edgekit_mil.lowering.nodes import domain_of, schema_of
    from edgekit_mil.ops import catalogue

    gap = gaps.get(node_name(node))
    if gap is not None:
        return _verdict(node, Support.UNSUPPORTED, gap.reason, gap.hint or replacement_hint(node, model.opset))
    schema = schema_of(node, model.graph_model.opset_imports)
    version = schema.since_version if schema is not None else 1
    if catalogue.find(domain_of(node), node.op_type, version) is None:
        return _verdict(node, Support.DECOMPOSED, "by the function body that defines it, or folded")
    return _verdict(node, Support.SUPPORTED, detail)


def _verdict(node: ir.Node, support: Support, detail: str, hint: str = "") -> NodeVerdict:
    return NodeVerdict(
        node=node_name(node),
        op_type=op_name(node),
        support=support,
        evidence=Evidence.REGISTRY,
        detail=detail,
        hint=hint,
    )
