"""Random numbers that the model draws become inputs, so that a bundle can be compared with the model."""

from __future__ import annotations

from edgekit.execution.inner_values import with_measured_dimensions
from edgekit.graph.cancelled_draws import without_cancelled_draws
from edgekit.graph.random_inputs import draws_numbers, with_random_inputs
from edgekit.model import Model
from edgekit.rewrites.randomness import draws
from edgekit.stages import Stage, StageResult


class RandomInputs(Stage[Model]):
    """Gives the model an input for each node that draws random numbers.

    Numbers that are multiplied by zero do not count, and get no input. Nodes whose numbers no input can replace stay:
    those in loops and branches, and those whose sizes are computed.
    """

    name = "random inputs"

    def run(self, given: Model) -> StageResult:
        """Makes the inputs."""
        given, cancelled = without_cancelled_draws(given)
        changed, drawers = with_random_inputs(given)
        if draws_numbers(changed):
            changed, drawers = with_random_inputs(given, with_measured_dimensions(given, _drawn_from(given)))
        warnings = [
            f"input {name!r} takes the random numbers that node {node!r} drew; the app has to draw them: "
            f"{changed.drawn[name]}"
            for name, node in drawers.items()
        ]
        return StageResult(changed, {"inputs": dict(drawers), "cancelled": cancelled, "warnings": warnings})

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        kept = [spec.name for spec in result.model.inputs if spec.name not in result.record["inputs"]]
        if kept != [spec.name for spec in given.inputs]:
            raise self.broken("an input is gone")
        if [spec.name for spec in result.model.outputs] != [spec.name for spec in given.outputs]:
            raise self.broken("the outputs have other names")


def _drawn_from(model: Model) -> set[str]:
    """The names of values that nodes of the main graph compute, and that nodes which draw numbers read or return."""
    beside = {value for node in model.graph if draws(node) for value in (*node.inputs, *node.outputs)}
    return {str(value.name) for node in model.graph for value in node.outputs if value in beside}
