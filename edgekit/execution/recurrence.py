"""States: inputs that a built model keeps from one run to the next; and how the original is executed with them.

Whoever runs the original feeds it its states: zeros at first, then the outputs that replace them. A built model with
states keeps them itself. The samples of such a model are the steps of one sequence, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.suggestions import near_names

GOLDEN_STEPS = 8
"""How many steps of the sequence become golden data."""
SEEDED_STEPS = 16
"""How many random steps a model with states is verified on if there is no data."""


@runtime_checkable
class Restartable(Protocol):
    """An executor that keeps states from one run to the next."""

    def restart(self) -> None:
        """Sets the states to zero."""


def restart(executor: object) -> None:
    """Begins a new sequence: sets the states of an executor to zero, if it keeps states."""
    if isinstance(executor, Restartable):
        executor.restart()


class FedBackOriginal:
    """The original, its states fed back from run to run.

    Args:
        reference: Executes the model.
        model: The original.
    """

    def __init__(self, reference: Reference, model: Model) -> None:
        self._reference = reference
        self._states = model.states
        self._zeros = zero_states(model)
        self._held = dict(self._zeros)

    @property
    def executed_by(self) -> str:
        """What the reference reports, and that states are fed back."""
        return f"{self._reference.executed_by}, states fed back"

    def restart(self) -> None:
        """Sets the states to zero."""
        self._held = dict(self._zeros)

    def completed(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """The inputs with the current states."""
        return {**feeds, **self._held}

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """One step: outputs by name, the new states among them.

        Raises:
            edgekit.execution.reference.NotRunnableError: A node fails on these inputs.
        """
        outputs = self._reference.run(self.completed(feeds))
        self._held = {name: outputs[output] for name, output in self._states.items()}
        return outputs


Original = Reference | FedBackOriginal
"""What executes the original."""


def reference_of(model: Model, *, fast: bool = False) -> Original:
    """An executor of the original; see :class:`edgekit.execution.reference.Reference`."""
    reference = Reference(model, fast=fast)
    return FedBackOriginal(reference, model) if model.states else reference


def zero_states(model: Model) -> Arrays:
    """The states at the beginning of a sequence, by the names of the inputs."""
    return {
        spec.name: np.zeros([dim for dim in spec.shape or () if isinstance(dim, int)], spec.dtype)
        for spec in model.inputs
        if spec.name in model.states
    }


def with_states(model: Model, states: Mapping[str, str]) -> Model:
    """The model with the states that it is to keep from run to run.

    Args:
        model: The model, its shapes fixed.
        states: Names of inputs, each with the name of the output that replaces it in the next run.

    Raises:
        InputError: There is no such input or output, the two are not of one floating-point type and fixed shape, an
            output replaces two states, or all outputs are states.
    """
    inputs = {spec.name: spec for spec in model.inputs}
    outputs = {spec.name: spec for spec in model.outputs}
    for name, output in states.items():
        flag = f"--state {name}={output}"
        for asked, known, what in ((name, inputs, "input"), (output, outputs, "output")):
            if asked not in known:
                raise InputError(f"there is no {what} {asked!r}", subject=flag, expected=near_names(asked, known))
        _require_alike(inputs[name], outputs[output], flag)
    if states and len(set(states.values())) < len(states):
        raise InputError("an output replaces two states", subject="--state", expected="an output a state")
    if states and len(states) == len(outputs):
        raise InputError(
            "would leave the model without outputs", subject="--state", found=", ".join(map("=".join, states.items()))
        )
    return model if model.states == states else replace(model, states=dict(states))


def _require_alike(before: ValueSpec, after: ValueSpec, flag: str) -> None:
    known_shape: Any = after.shape if after.is_static else before.shape
    if not before.is_static or not np.dtype(before.dtype).kind == "f" or before.dtype != after.dtype:
        raise InputError(
            "cannot be a state",
            subject=flag,
            expected="an input and an output of one floating-point type and one fixed shape",
            found=f"{before}; {after}",
            hint="fix open dimensions of states with --dim NAME=SIZE",
        )
    if known_shape != before.shape:
        raise InputError("the output has another shape than the state", subject=flag, found=f"{before}; {after}")
