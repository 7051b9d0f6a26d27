"""Judges nodes by a trial of the conversion: the registry of lowerings is the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.graph.shapes import infer_shapes
from edgekit.model import Model, node_name, op_name
from edgekit.operators.hints import replacement_hint
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_coreml.compute_plan import is_available, planned_units, unit_of
from edgekit_coreml.units import NEURAL_ENGINE, Placement, placement


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """What becomes of every node of the main graph, in graph order; bodies convert with the node that holds them.

    The unit is what Core ML plans, on a Mac; elsewhere a rule of thumb, since it plans when it loads a program.

    Raises:
        edgekit.errors.InputError: An input's shape is not fixed.
    """
    from edgekit_mil.ops import catalogue
    from edgekit_mil.walk.nodes import domain_of, schema_of

    target = profile.options["deployment_target"]
    gaps = _gaps(model, target)
    planned = planned_units(model, target) if is_available() and not gaps else {}

    def verdict(node: ir.Node, typed: ir.Node) -> NodeVerdict:
        gap = gaps.get(node_name(node))
        if gap is not None:
            return _verdict(node, Support.UNSUPPORTED, gap.reason, gap.hint or replacement_hint(node, model.opset))
        schema = schema_of(node, model.graph_model.opset_imports)
        version = schema.since_version if schema is not None else 1
        if catalogue.find(domain_of(node), node.op_type, version) is None:
            converted = _verdict(node, Support.DECOMPOSED, "by the function body that defines it, or folded")
        else:
            converted = _verdict(node, Support.SUPPORTED, f"has a lowering for {target}")
        return _placed(converted, typed, model.opset, planned)

    typed = infer_shapes(model, strict=False).graph
    return [verdict(*pair) for pair in zip(model.graph, typed, strict=True)]


def _gaps(model: Model, target: str) -> dict[str, OpGap]:
    """What does not convert, by the name of the node of the main graph that it is in."""
    from edgekit_mil.program.build import build_program
    from edgekit_mil.walk.nodes import PATH_SEPARATOR

    found = build_program(model.graph_model, target, model.source, model.open_dims).gaps
    return {gap.node.split(PATH_SEPARATOR)[0]: gap for gap in found}


def _placed(converted: NodeVerdict, typed: ir.Node, opset: int, planned: Mapping[str, str]) -> NodeVerdict:
    """The verdict with the unit that runs the node, as far as it is planned, or else as a rule of thumb has it."""
    unit = unit_of([value.name or "" for value in typed.outputs], planned)
    if unit:
        place, evidence = (
            Placement(unit, "" if unit == NEURAL_ENGINE else "Core ML prefers it there"),
            Evidence.COMPILED,
        )
    else:
        place = placement(typed)
        evidence = Evidence.HEURISTIC if place.unit else Evidence.UNKNOWN
    if place.unit in (NEURAL_ENGINE, ""):
        return replace(converted, unit=place.unit, unit_evidence=evidence)
    return replace(
        converted,
        support=Support.FALLS_BACK,
        evidence=evidence,
        unit=place.unit,
        detail=place.because,
        hint=replacement_hint(typed, opset),
    )


def _verdict(node: ir.Node, support: Support, detail: str, hint: str = "") -> NodeVerdict:
    return NodeVerdict(node_name(node), op_name(node), support, Evidence.REGISTRY, detail=detail, hint=hint)
