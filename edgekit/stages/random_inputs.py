"""Random numbers that the model draws become inputs, so that a bundle can be held against the model."""

from __future__ import annotations

from edgekit.graph.random_inputs import with_random_inputs
from edgekit.model import Model
from edgekit.stages import Stage, StageResult


class RandomInputs(Stage[Model]):
    """Gives the model an input for each node that draws random numbers.

    Nodes whose numbers no input can take stay: those in loops and branches, and those of sizes that are computed.
    """

    name = "random inputs"

    def run(self, given: Model) -> StageResult:
        """Makes the inputs."""
        changed, drawers = with_random_inputs(given)
        warnings = [
            f"input {name!r} takes the random numbers that node {node!r} drew, and the app draws them:"
            f" {changed.drawn[name]}"
            for name, node in drawers.items()
        ]
        return StageResult(changed, {"inputs": dict(drawers), "warnings": warnings})

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        kept = [spec.name for spec in result.model.inputs if spec.name not in result.record["inputs"]]
        if kept != [spec.name for spec in given.inputs]:
            raise self.broken("an input is gone")
        if [spec.name for spec in result.model.outputs] != [spec.name for spec in given.outputs]:
            raise self.broken("the outputs have other names")
