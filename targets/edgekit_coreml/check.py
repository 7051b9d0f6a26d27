"""Judges nodes by a trial of the conversion: the registry of lowerings is the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.operators.hints import replacement_hint
from edgekit.target import Evidence, NodeVerdict, Profile, Support
from edgekit_coreml.compute_plan import is_available, planned_units, unit_of
from edgekit_coreml.units import NEURAL_ENGINE, Placement, placement
from edgekit_mlprogram.verdicts import trial, verdict_of


def verdicts(model: Model, profile: Profile) -> list[NodeVerdict]:
    """Returns a verdict for every node of the main graph, in graph order; a subgraph is part of the node that holds it.

    On a Mac the unit is the one that Core ML's compute plan prefers. Elsewhere a rule of thumb gives it, since Core ML
    assigns units when it loads a program.

    Raises:
        edgekit.errors.InputError: An input's shape is not fixed.
    """
    target = profile.options["deployment_target"]
    _, gaps = trial(model, target)
    planned = planned_units(model, target) if is_available() and not gaps else {}

    def verdict(node: ir.Node, typed: ir.Node) -> NodeVerdict:
        found = verdict_of(model, node, gaps, f"has a lowering for {target}")
        return found if found.support is Support.UNSUPPORTED else _placed(found, typed, model.opset, planned)

    typed = infer_shapes(model, strict=False).graph
    return [verdict(*pair) for pair in zip(model.graph, typed, strict=True)]


def _placed(converted: NodeVerdict, typed: ir.Node, opset: int, planned: Mapping[str, str]) -> NodeVerdict:
    """Returns the verdict with the unit that runs the node: the planned one, else the one by the rule of thumb."""
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
