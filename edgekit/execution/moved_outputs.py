"""How rounding changes a model's outputs: with inputs and weights moved, or with all arithmetic in double precision."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from edgekit.execution.double_precision import doubled, in_double
from edgekit.execution.exact_products import with_blocks_in_floats
from edgekit.execution.reference import NotRunnableError, Reference, fed_to
from edgekit.execution.rounding import (
    PERTURBATIONS,
    is_rounding,
    perturbed_inputs,
    perturbed_weights,
    with_values_moved,
)
from edgekit.model import Arrays, Model


class MovedOutputs:
    """A model's outputs on inputs with different rounding; each is computed when it is first needed.

    Args:
        model: The model; it is not changed.
        feeds: Numbers for the model's inputs; other entries are ignored.
        whole_too: Whether inputs that are whole numbers move as well; see
            :func:`~edgekit.execution.rounding.perturbed`.
        inside: Values that nodes compute, which move as well; see
            :func:`~edgekit.execution.rounding.with_values_moved`.
    """

    def __init__(self, model: Model, feeds: Arrays, *, whole_too: bool = False, inside: Collection[str] = ()) -> None:
        self._model, self._feeds, self._whole_too, self._inside = model, feeds, whole_too, inside
        self._perturbed: list[Arrays] = []
        self._coming = self._executions()

    def explain(self, name: str, expected: Any, found: Any) -> bool:
        """Whether rounding explains that a changed model gives ``found`` where this one gives ``expected``."""
        return is_rounding(expected, found, self._of(name), lambda: self._in_double.get(name))

    def _of(self, name: str) -> Iterator[Any]:
        """The output with numbers moved, once for each perturbation with which the model runs."""
        yield from (outputs[name] for outputs in self._perturbed)
        for outputs in self._coming:
            self._perturbed.append(outputs)
            yield outputs[name]

    def _executions(self) -> Iterator[Arrays]:
        for seed in range(PERTURBATIONS):
            try:
                model = perturbed_weights(self._model, seed)
                if self._inside:
                    model = with_values_moved(model, self._inside, seed)
                reference = Reference(with_blocks_in_floats(model))
                moved = perturbed_inputs(self._feeds, seed, whole_too=self._whole_too)
                yield reference.run(fed_to(reference, moved))
            except NotRunnableError:
                continue

    @cached_property
    def _in_double(self) -> Arrays:
        """The outputs in double precision; empty if ONNX Runtime does not execute the model in it."""
        try:
            reference = Reference(in_double(self._model))
            return reference.run(doubled(fed_to(reference, self._feeds)))
        except NotRunnableError:
            return {}
