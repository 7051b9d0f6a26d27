"""Dimensions that share a name in the file, or have none, get names of their own if samples show that they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgekit.data.samples import open_samples
from edgekit.errors import InputError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.sizes.shared_names import RenamedDimension, check_sizes, with_own_names
from edgekit.model import Model
from edgekit.stages import Stage, StageResult


class TellApart(Stage[Model]):
    """Gives dimensions names of their own, if shape inference accepts them and the model runs on all samples.

    Otherwise, or if the samples cannot be read, the model stays as it is, and a warning says why.

    Args:
        names: The dimensions, by :func:`edgekit.graph.sizes.shared_names.names_by_samples`.
        folders: The samples; none if the names were confirmed before.
    """

    name = "tell dimensions apart"

    def __init__(self, names: Sequence[RenamedDimension], *folders: Path | None) -> None:
        self._names = names
        self._folders = [folder for folder in folders if folder is not None]

    def run(self, given: Model) -> StageResult:
        """Renames the dimensions."""
        axes = ", ".join(f"{one.input}[{one.axis}]" for one in self._names)
        try:
            model = with_own_names(given, self._names)
            self._execute(model)
        except (InputError, NotRunnableError) as error:
            shared = ", ".join(dict.fromkeys(repr(one.dimension or one.name) for one in self._names))
            kept = (
                f"samples have several sizes for dimension {shared}, but it stays one dimension ({axes}): "
                f"{_reason(error)}"
            )
            return StageResult(given, {"names": [], "warnings": [kept]})
        names = [{key: value for key, value in asdict(one).items() if key != "why"} for one in self._names]
        return StageResult(model, {"names": names, "warnings": list(map(str, self._names))})

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        if (changed := changed_input(given, result)) is not None:
            raise self.broken(f"input {changed!r} is another")
        if [spec.name for spec in given.outputs] != [spec.name for spec in result.model.outputs]:
            raise self.broken("the outputs have other names")

    def _execute(self, model: Model) -> None:
        """Runs the model on all samples, and infers shapes at the sizes of the first sample of each folder.

        Raises:
            NotRunnableError: The model does not run on a sample.
            InputError: The samples do not fit the model, or an operator cannot take the shapes.
        """
        reference = Reference(model)
        for folder in self._folders:
            samples = open_samples(folder, model.inputs, class_names=model.class_names, nan_inputs=model.nan_inputs)
            for place, sample in enumerate(samples):
                if place == 0:
                    check_sizes(model, {name: array.shape for name, array in sample.feeds.items()})
                reference.run(sample.feeds)


def changed_input(given: Model, result: StageResult) -> str | None:
    """The name of the first input that changed in more than the recorded dimension names; None if none did."""
    own = {(each["input"], each["axis"]): each["name"] for each in result.record["names"]}
    for before, after in zip(given.inputs, result.model.inputs, strict=True):
        shape = before.shape and tuple(own.get((before.name, axis), dim) for axis, dim in enumerate(before.shape))
        if (after.name, after.dtype, after.shape) != (before.name, before.dtype, shape):
            return before.name
    return None


def recorded_names(records: Iterable[Mapping[str, Any]]) -> list[RenamedDimension]:
    """The names that a manifest's record of the stage holds."""
    return [RenamedDimension(**record) for record in records]


def _reason(error: InputError | NotRunnableError) -> str:
    if isinstance(error, NotRunnableError):
        where = "" if error.node is None else f"node {error.node!r}: "
        return f"the model does not run on them: {where}{error.cause}"
    return " ".join(str(error).split())
