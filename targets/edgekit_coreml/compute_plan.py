"""The compute plan of Core ML: the unit that it prefers for each operation of a program. It exists on a Mac only."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgekit.model import Model
from edgekit_coreml.units import NEURAL_ENGINE

UNITS = {
    "MLNeuralEngineComputeDevice": NEURAL_ENGINE,
    "MLGPUComputeDevice": "GPU",
    "MLCPUComputeDevice": "CPU",
}
"""Name of a compute unit, by the name of its class in ``coremltools.models.compute_device``."""


def is_available() -> bool:
    """Whether this machine has Core ML."""
    return platform.system() == "Darwin"


def planned_units(model: Model, target: str) -> dict[str, str]:
    """Returns the unit on which Core ML would compute each value if it may use the Neural Engine and the CPU.

    The model is converted in float16, the only precision of the Neural Engine.

    Returns:
        Name of the value in the program -> the unit that Core ML prefers for it.
    """
    import coremltools
    from coremltools.models.compute_plan import MLComputePlan

    from edgekit_mlprogram.conversion import convert_graph

    units = coremltools.ComputeUnit.CPU_AND_NE
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.mlpackage"
        convert_graph(
            model.graph_model, place, deployment_target_name=target, precision="float16", subject=model.source
        )
        compiled = coremltools.models.MLModel(str(place), compute_units=units)
        return units_of_plan(MLComputePlan.load_from_path(compiled.get_compiled_model_path(), units))


def units_of_plan(plan: Any) -> dict[str, str]:
    """Returns the unit that a compute plan prefers for each value; values without one, as constants, are left out."""
    found: dict[str, str] = {}
    for function in plan.model_structure.program.functions.values():
        for operation in _operations(function.block):
            usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
            if usage is not None:
                unit = UNITS[type(usage.preferred_compute_device).__name__]
                found |= {output.name: unit for output in operation.outputs}
    return found


def _operations(block: Any) -> Iterator[Any]:
    """The operations of a block, and of the blocks inside them."""
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from _operations(inner)


def unit_of(names: list[str], units: Mapping[str, str]) -> str:
    """Returns the unit of the node that makes the values ``names``, or "" if passes removed them from the program."""
    from edgekit_mil.lowering.nodes import mil_name

    return next((units[place] for name in names if (place := mil_name(name)) in units), "")
