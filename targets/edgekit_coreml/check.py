"""Judges nodes by a trial of the conversion: the frontend's registry is the evidence."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name
from edgekit.operator_hints import replacement_hint
from edgekit.shapes import infer_shapes
from edgekit.target import Evidence, NodeVerdict, Profile, Support


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node of the main graph, in graph order; bodies convert with the node that holds them.

    The unit is a rule of thumb: Core ML places operations when it loads a program, on the device.

    Raises:
        edgekit.errors.InputError: An input's shape is not fixed.
    """
    from edgekit_coreml.frontend import registry
    from edgekit_coreml.frontend.lowering import domain_of, schema_of

    target = profile.options["deployment_target"]
    gaps = _gaps(model, target)
    newer = _taken_by_newer(model, target, gaps)

    def verdict(node: ir.Node, typed: ir.Node) -> NodeVerdict:
        name = node_name(node)
        gap = gaps.get(name)
        if gap is not None:
            later = f"it converts from {newer[name]} on" if name in newer else ""
            hint = later or gap.hint or replacement_hint(node, model.opset)
            return _verdict(node, Support.UNSUPPORTED, gap.reason, hint)
        schema = schema_of(node, model.graph_model.opset_imports)
        version = schema.since_version if schema is not None else 1
        if registry.find(domain_of(node), node.op_type, version) is None:
            converted = _verdict(node, Support.DECOMPOSED, "by the function body that defines it, or folded")
        else:
            converted = _verdict(node, Support.SUPPORTED, f"has a lowering for {target}")
        return _placed(converted, typed, model.opset)

    typed = infer_shapes(model, strict=False).graph
    return [verdict(*pair) for pair in zip(model.graph, typed, strict=True)]


def _gaps(model: Model, target: str) -> dict[str, OpGap]:
    """What does not convert, by the name of the node of the main graph that it is in."""
    from edgekit_coreml.frontend.lowering import PATH_SEPARATOR
    from edgekit_coreml.frontend.program import build_program

    found = build_program(model.graph_model, target, model.source, model.open_dims).gaps
    return {gap.node.split(PATH_SEPARATOR)[0]: gap for gap in found}


def _taken_by_newer(model: Model, target: str, gaps: dict[str, OpGap]) -> dict[str, str]:
    """The first newer deployment target that takes each node that this one does not."""
    from edgekit_coreml.deployment import TARGETS

    found: dict[str, str] = {}
    for newer in TARGETS[TARGETS.index(target) + 1 :] if gaps else ():
        still = _gaps(model, newer)
        found |= {name: newer for name in gaps if name not in still and name not in found}
    return found


def _placed(converted: NodeVerdict, typed: ir.Node, opset: int) -> NodeVerdict:
    """The verdict with the unit that probably runs the node."""
    from edgekit_coreml.units import ELSEWHERE, placement

    place = placement(typed)
    if place.unit != ELSEWHERE:
        evidence = Evidence.HEURISTIC if place.unit else Evidence.UNKNOWN
        return replace(converted, unit=place.unit, unit_evidence=evidence)
    return replace(
        converted,
        support=Support.FALLS_BACK,
        evidence=Evidence.HEURISTIC,
        unit=place.unit,
        detail=place.because,
        hint=replacement_hint(typed, opset),
    )


def _verdict(node: ir.Node, support: Support, detail: str, hint: str = "") -> NodeVerdict:
    return NodeVerdict(node_name(node), op_name(node), support, Evidence.REGISTRY, detail=detail, hint=hint)
