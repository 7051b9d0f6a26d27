"""The MIL program of a model: inputs, the lowered graph, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.features.dimensions import OpenDims
from edgekit.operators.hints import fix_sizes_hint
from edgekit.target import Feature
from edgekit_mil.core.mil import Function, Program, ct, export_proto, mb
from edgekit_mil.core.values import FIX_SIZES, Unsupported, Value
from edgekit_mil.lowering.graph import GraphLowering
from edgekit_mil.passes.tied_weights import store_equal_weights_once
from edgekit_mil.program import class_output, picture_input, signature, states
from edgekit_mil.program.flexible_shapes import checked, symbols_of
from edgekit_mil.program.interface import Interface
from edgekit_mil.support.runtime_shapes import note_input_size


@dataclass(frozen=True)
class BuiltProgram:
    """A lowered model. With gaps there are no outputs."""

    program: Program
    inputs: Sequence[Feature]
    outputs: Sequence[Feature]
    gaps: Sequence[OpGap]
    states: Sequence[Feature] = ()
    """The program's states, by the names of the model's inputs that they replace."""
    notes: Sequence[str] = ()
    """What was left out or changed."""


def build_program(
    model: ir.Model,
    target_name: str,
    subject: object,
    dimensions: OpenDims | None = None,
    interface: Interface | None = None,
) -> BuiltProgram:
    """Lower a model into a MIL program in float32.

    Args:
        model: The model, its input shapes fixed except for the open dimensions.
        target_name: The deployment target by coremltools' name.
        subject: What to call the model in errors.
        dimensions: The sizes that open dimensions may take, by the dimensions' names.
        interface: What the program offers to applications beyond arrays.

    Raises:
        edgekit.errors.InputError: An input's shape is neither fixed nor open, or the interface does not fit the model.
    """
    dimensions = checked(dimensions or {})
    interface = interface or Interface()
    target = ct.target[target_name]
    states.require_states(model, interface.states, target)
    reset_names()
    formal = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    mappings = signature.input_mappings(formal, subject, dimensions)
    if interface.image is not None:
        mappings = [picture_input.picture_mapping(mapping, interface.image) for mapping in mappings]
    symbols = symbols_of(dimensions)
    for name, symbol in symbols.items():
        note_input_size(symbol, max(dimensions[name]))
    lowering = GraphLowering(model, target)
    placeholders = {
        mapping.native_name: states.state_placeholder(mapping)
        if mapping.name in interface.states
        else signature.placeholder(mapping, dimensions, symbols)
        for mapping in mappings
    }
    inputs = [mapping for mapping in mappings if mapping.name not in interface.states]
    with Function(placeholders, target) as function:
        entered = [
            _entered(function.inputs[mapping.native_name], mapping, value.dtype or ir.DataType.UNDEFINED, interface)
            for mapping, value in zip(mappings, formal, strict=True)
        ]
        results = lowering.lower_main(entered)
        outputs, variables = _outputs(model, results, mappings, lowering.gaps, interface, symbols)
        for mapping in mappings:
            result = _result(model, results, interface.states.get(mapping.name))
            if result is not None:
                states.write(function.inputs[mapping.native_name], result, interface.states[mapping.name])
        if interface.classes and not lowering.gaps:
            variables.append(class_output.probabilities(model.graph.outputs, results, interface))
        function.set_outputs(variables)
    program = Program()
    program.add_function("main", function)
    function.set_input_types(
        tuple(picture_input.picture_type(mapping, interface.image) for mapping in inputs)
        if interface.image is not None
        else signature.coreml_inputs(inputs, dimensions, target)
    )
    kept = [
        replace(mapping, native_dtype=states.NATIVE_DTYPE) for mapping in mappings if mapping.name in interface.states
    ]
    gaps = [replace(gap, hint=fix_sizes_hint(dimensions)) if gap.hint == FIX_SIZES else gap for gap in lowering.gaps]
    return BuiltProgram(program, inputs, outputs, gaps, kept, lowering.notes)


def _entered(var: Any, mapping: Feature, dtype: ir.DataType, interface: Interface) -> Value:
    """The ONNX value of an input."""
    if interface.image is not None:
        return picture_input.from_pixels(var, interface.image, dtype)
    if mapping.name in interface.states:
        return states.read(var, dtype, [size for size in mapping.shape if size is not None])
    return signature.enter(var, mapping, dtype)


def _result(model: ir.Model, results: Sequence[Value | None], name: str | None) -> Value | None:
    """Returns the value of the output ``name``; None if there is no such output or value."""
    found = (result for output, result in zip(model.graph.outputs, results, strict=True) if output.name == name)
    return next(found, None)


def _outputs(
    model: ir.Model,
    results: Sequence[Value | None],
    inputs: Sequence[Feature],
    gaps: list[OpGap],
    interface: Interface,
    symbols: Mapping[str, Any],
) -> tuple[list[Feature], list[Any]]:
    taken = [*(mapping.native_name for mapping in inputs), *(class_output.NAMES if interface.classes else ())]
    natives = signature.unique_native_names((value.name or "" for value in model.graph.outputs), taken)
    kept = set(interface.states.values())
    mappings, variables = [], []
    for value, result, native in zip(model.graph.outputs, results, natives, strict=True):
        if result is None or value.name in kept:
            continue
        try:
            variables.append(signature.leave(result, native))
            mappings.append(signature.output_mapping(value, result, native, symbols))
        except Unsupported as gap:
            producer = value.producer()
            gaps.append(
                OpGap(
                    op_type=producer.op_type if producer else "output",
                    node=value.name or "",
                    reason=f"output: {gap.reason}",
                    hint=gap.hint,
                )
            )
    return mappings, variables


def export(program: Program, weights: Path, target_name: str, classes: Sequence[str] = ()) -> Any:
    """Returns the program's protobuf message and writes its weights; with ``classes`` the program is a classifier."""
    store_equal_weights_once(program)
    return export_proto(
        program,
        classifier_config=class_output.classifier_config(classes) if classes else None,
        weights_dir=str(weights),
        specification_version=ct.target[target_name].value,
        convert_to="mlprogram",
        convert_from="milinternal",
    )


def reset_names() -> None:
    """Reset the builder's name counters, so that a conversion does not depend on earlier ones."""
    mb.name_count.clear()
