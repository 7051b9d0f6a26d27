"""Compute plans exist on a Mac only: coremltools' own classes stand in for one, with the devices made up."""

from __future__ import annotations

import platform
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from coremltools.models.compute_device import MLCPUComputeDevice, MLGPUComputeDevice, MLNeuralEngineComputeDevice
from coremltools.models.compute_plan import (
    MLComputePlanDeviceUsage,
    MLModelStructure,
    MLModelStructureProgram,
    MLModelStructureProgramBlock,
    MLModelStructureProgramFunction,
    MLModelStructureProgramNamedValueType,
    MLModelStructureProgramOperation,
)

from edgekit.model import Model
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_coreml import check
from edgekit_coreml.compute_plan import is_available, planned_units, unit_of, units_of_plan
from edgekit_coreml.target import CoreMLTarget


def operation(name: str, *inner: MLModelStructureProgramBlock) -> MLModelStructureProgramOperation:
    outputs = [MLModelStructureProgramNamedValueType(name=name, type=None)]
    return MLModelStructureProgramOperation({}, "op", outputs, list(inner), None)


def block(*operations: MLModelStructureProgramOperation) -> MLModelStructureProgramBlock:
    return MLModelStructureProgramBlock(inputs=[], operations=list(operations), output_names=[])


class Plan:
    """What a Mac would answer."""

    def __init__(self, main: MLModelStructureProgramBlock, devices: dict[str, type]) -> None:
        function = MLModelStructureProgramFunction(inputs=[], block=main)
        program = MLModelStructureProgram(functions={"main": function})
        self.model_structure = MLModelStructure(neuralnetwork=None, program=program, pipeline=None)
        self._devices = devices

    def get_compute_device_usage_for_mlprogram_operation(
        self, operation: MLModelStructureProgramOperation
    ) -> MLComputePlanDeviceUsage | None:
        device = self._devices.get(operation.outputs[0].name)
        return None if device is None else MLComputePlanDeviceUsage(device.__new__(device), [])


def test_the_plan_is_read_operation_by_operation_inside_blocks_too() -> None:
    main = block(operation("w"), operation("a"), operation("c", block(operation("b"))))
    plan = Plan(main, {"a": MLNeuralEngineComputeDevice, "b": MLGPUComputeDevice, "c": MLCPUComputeDevice})
    assert units_of_plan(plan) == {"a": "Neural Engine", "b": "GPU", "c": "CPU"}


def test_a_value_is_found_by_the_name_that_the_program_gives_it() -> None:
    units = {"_419": "GPU", "a_b": "CPU"}
    assert unit_of(["419"], units) == "GPU"
    assert unit_of(["gone", "a/b"], units) == "CPU"
    assert unit_of(["gone"], units) == ""


def judged(monkeypatch: pytest.MonkeyPatch, planned: dict[str, str]) -> list[NodeVerdict]:
    def plan(*_: Any) -> dict[str, str]:
        return planned

    monkeypatch.setattr(check, "is_available", lambda: True)
    monkeypatch.setattr(check, "planned_units", plan)
    text = "(float[1, 4] x) => (float[1, 4] y) { a = Relu (x) b = Exp (a) y = Neg (b) }"
    model = Model(ir.from_proto(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g {text}')))
    target = CoreMLTarget()
    return target.check(model, target.profiles[0])


def test_what_core_ml_plans_counts_more_than_the_rule_of_thumb(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, {"a": "Neural Engine", "b": "CPU"})
    assert [(verdict.support, verdict.unit, verdict.unit_evidence or verdict.evidence) for verdict in found] == [
        (Support.SUPPORTED, "Neural Engine", Evidence.COMPILED),
        (Support.FALLS_BACK, "CPU", Evidence.COMPILED),
        (Support.SUPPORTED, "Neural Engine", Evidence.HEURISTIC),  # fused away, or not planned
    ]
    assert found[1].detail == "Core ML prefers it there"


@pytest.mark.skipif(not is_available(), reason=f"Core ML is on a Mac only, this is {platform.system()}")
def test_core_ml_plans_a_program() -> None:
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }'
    units = planned_units(Model(ir.from_proto(onnx.parser.parse_model(text))), "iOS18")
    assert set(units.values()) <= {"Neural Engine", "GPU", "CPU"}
