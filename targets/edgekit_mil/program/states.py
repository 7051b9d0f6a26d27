"""Inputs that a program keeps from one run to the next: Core ML's states, which are in float16 throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.target import Feature
from edgekit_mil.core.mil import Var, ct, mb, types
from edgekit_mil.core.values import Value, computed
from edgekit_mil.deployment import STATES_SINCE
from edgekit_mil.program.signature import native_shape
from edgekit_mil.support.high_ranks import of_shape

STATE_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
NATIVE_DTYPE = "float16"


def require_states(model: ir.Model, states: Mapping[str, str], target: ct.target) -> None:
    """Check that the target and the model can have the states.

    Raises:
        edgekit.errors.InputError: The target has no states, a pair is not an input and an output, an output replaces
            several states, no output is left, or a state is not floating-point.
    """
    if states and target < ct.target[STATES_SINCE]:
        raise InputError("the deployment target has no states", expected=f"{STATES_SINCE} or later", found=target.name)
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    twice = sorted({name for name in states.values() if list(states.values()).count(name) > 1})
    if twice:
        raise InputError("replaces several states", subject=f"output {twice[0]!r}", expected="an output a state")
    if states and len(outputs) == len(states):
        raise InputError("leaves the program without outputs", subject="states", found=", ".join(states.values()))
    for name, output in states.items():
        if name not in inputs or output not in outputs:
            missing, known = (name, inputs) if name not in inputs else (output, outputs)
            raise InputError(
                "no such input or output", subject=f"state {name!r}: {missing!r}", expected=", ".join(map(str, known))
            )
        if inputs[name].dtype not in STATE_TYPES:
            raise InputError(
                "a state has to be floating-point", subject=f"state {name!r}", found=str(inputs[name].dtype)
            )


def state_placeholder(mapping: Feature) -> Any:
    """The program's state for an input."""
    return mb.state_tensor_placeholder(shape=tuple(mapping.native_shape), dtype=types.fp16)


def read(state: Var, dtype: ir.DataType, shape: Sequence[int | str]) -> Value:
    """The ONNX value of a state at the beginning of a run."""
    value = computed(mb.cast(x=mb.read_state(input=state), dtype="fp32"), dtype)
    return of_shape(value, [int(size) for size in shape])


def write(state: Var, value: Value, name: str) -> None:
    """Replace a state by a value, at the end of a run.

    Raises:
        edgekit.errors.InputError: The value has another shape.
    """
    held = tuple(state.shape)
    if not value.is_static or native_shape(value.static_shape) != held:
        raise InputError(
            "has another shape than the state that it replaces",
            subject=f"output {name!r}",
            expected=str(list(held)),
            found=str(list(value.shape)),
        )
    shaped = of_shape(value, [int(size) for size in held])
    mb.coreml_update_state(state=state, value=mb.cast(x=shaped.var, dtype="fp16"))
