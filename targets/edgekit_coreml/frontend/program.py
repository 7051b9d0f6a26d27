"""The MIL program of a model: inputs, the lowered graph, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.target import Feature
from edgekit_coreml.frontend import signature
from edgekit_coreml.frontend.flexible import Sizes, checked, symbols_of
from edgekit_coreml.frontend.lowering import GraphLowering
from edgekit_coreml.frontend.mil import Function, Program, ct, export_proto, mb
from edgekit_coreml.frontend.values import Unsupported, Value


@dataclass(frozen=True)
class BuiltProgram:
    """A lowered model. With gaps there are no outputs."""

    program: Program
    inputs: Sequence[Feature]
    outputs: Sequence[Feature]
    gaps: Sequence[OpGap]


def build_program(
    model: ir.Model, target_name: str, subject: object, dimensions: Mapping[str, Sizes] | None = None
) -> BuiltProgram:
    """Lower a model into a MIL program in float32.

    Args:
        model: The model, its input shapes fixed but for the open dimensions.
        target_name: The deployment target by coremltools' name.
        subject: What to call the model in errors.
        dimensions: The sizes that open dimensions may take, by the dimensions' names.

    Raises:
        edgekit.errors.InputError: An input's shape is neither fixed nor open.
    """
    dimensions = checked(dimensions or {})
    target = ct.target[target_name]
    reset_names()
    formal = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    inputs = signature.input_mappings(formal, subject, dimensions)
    symbols = symbols_of(dimensions)
    lowering = GraphLowering(model, target)
    placeholders = {mapping.native_name: signature.placeholder(mapping, symbols) for mapping in inputs}
    with Function(placeholders, target) as function:
        entered = [
            signature.enter(function.inputs[mapping.native_name], mapping, value.dtype or ir.DataType.UNDEFINED)
            for mapping, value in zip(inputs, formal, strict=True)
        ]
        results = lowering.lower_main(entered)
        outputs, variables = _outputs(model, results, inputs, lowering.gaps)
        function.set_outputs(variables)
    program = Program()
    program.add_function("main", function)
    function.set_input_types(signature.coreml_inputs(inputs, dimensions))
    return BuiltProgram(program, inputs, outputs, lowering.gaps)


def _outputs(
    model: ir.Model, results: Sequence[Value | None], inputs: Sequence[Feature], gaps: list[OpGap]
) -> tuple[list[Feature], list[Any]]:
    natives = signature.unique_native_names(
        (value.name or "" for value in model.graph.outputs), taken=(mapping.native_name for mapping in inputs)
    )
    mappings, variables = [], []
    for value, result, native in zip(model.graph.outputs, results, natives, strict=True):
        if result is None:
            continue
        try:
            variables.append(signature.leave(result, native))
            mappings.append(signature.output_mapping(value.name or "", result, native))
        except Unsupported as gap:
            producer = value.producer()
            gaps.append(
                OpGap(producer.op_type if producer else "output", value.name or "", f"output: {gap.reason}", gap.hint)
            )
    return mappings, variables


def export(program: Program, weights: Path, target_name: str) -> Any:
    """The program's protobuf message; weights go to ``weights/weight.bin``."""
    return export_proto(
        program,
        weights_dir=str(weights),
        specification_version=ct.target[target_name].value,
        convert_to="mlprogram",
        convert_from="milinternal",
    )


def reset_names() -> None:
    """Start the builder's counters anew, so that a conversion does not depend on those before it."""
    mb.name_count.clear()
