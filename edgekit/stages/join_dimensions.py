"""Dimensions with different names are joined, if they agree in all samples and the model does not run otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from edgekit.data.samples import open_samples, samples_at
from edgekit.errors import InputError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.sizes.joined_names import DependentDimension
from edgekit.graph.sizes.shared_names import RenamedDimension, with_own_names
from edgekit.model import Model
from edgekit.stages import Stage, StageResult
from edgekit.stages.tell_apart import changed_input


class JoinDimensions(Stage[Model]):
    """Gives dimensions one name that have one size in every sample, where the model does not run when they differ.

    A dimension that is a sum of others in every sample is named by the sum, such as ``past + 1``. The model is executed
    on mixed inputs of two samples of different sizes, once for each way to mix them. If it runs on both mixtures, or
    the joined dimensions contradict its operators, the dimensions stay as they are.

    Args:
        alike: The dimensions, by :func:`edgekit.graph.sizes.joined_names.alike_by_samples`.
        folders: The samples, in the order in which their shapes were read.
    """

    name = "join dimensions"

    def __init__(self, alike: Sequence[DependentDimension], *folders: Path | None) -> None:
        self._alike = alike
        self._folders = [folder for folder in folders if folder is not None]

    def run(self, given: Model) -> StageResult:
        """Renames the dimensions."""
        try:
            names = [name for one in self._alike for name in self._joined(given, one)]
            model = with_own_names(given, names) if names else given
        except (InputError, NotRunnableError):  # a later stage that reads the samples reports the error
            names, model = [], given
        record = [{key: value for key, value in asdict(one).items() if key != "why"} for one in names]
        return StageResult(model, {"names": record, "warnings": list(map(str, names))})

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        if (changed := changed_input(given, result)) is not None:
            raise self.broken(f"input {changed!r} is another")

    def _joined(self, model: Model, alike: DependentDimension) -> list[RenamedDimension]:
        """The names that a dimension gets, for each of its places; empty if the model runs on different sizes.

        If the file states a sum that samples contradict, the sum that holds in samples always replaces it.
        """
        if alike.is_stated:
            why = f"in every sample it is {alike.size}, and in some samples this differs from what the file says"
            return [RenamedDimension(name, axis, alike.other, alike.size, why) for name, axis in alike.places]
        if not self._runs_apart(model, alike):
            if alike.first_place is None:
                has = "the sum of these sizes"
            else:
                name, axis = alike.first_place
                has = f"the size of dimension {axis} of input {name!r}"
            why = f"in every sample it has {has}, and the model does not always run where they differ"
            return [RenamedDimension(name, axis, alike.other, alike.size, why) for name, axis in alike.places]
        return []

    def _runs_apart(self, model: Model, alike: DependentDimension) -> bool:
        """Whether the model runs both if the dimension is smaller and if it is larger: it may cut a longer mask."""
        pair = [self._feeds(model, place) for place in alike.apart]
        reference = Reference(model)
        for feeds in pair:
            reference.run(feeds)
        moved = {name for name, _ in alike.places}
        for one, other in (pair, reversed(pair)):
            try:
                reference.run({name: other[name] if name in moved else array for name, array in one.items()})
            except NotRunnableError:
                return False
        return True

    def _feeds(self, model: Model, place: int) -> Mapping[str, np.ndarray]:
        """The inputs of a sample by its number in all folders."""
        for folder in self._folders:
            samples = open_samples(folder, model.inputs, class_names=model.class_names, nan_inputs=model.nan_inputs)
            if place < len(samples):
                return next(samples_at(samples, {place})).feeds
            place -= len(samples)
        raise self.broken(f"there is no sample {place}")
