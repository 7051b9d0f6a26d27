"""Inputs whose values set the sizes of tensors inside are fixed at the value that they have in all samples.

A device that has to know sizes when the model is built cannot take such an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgekit.data.npz import read_npz
from edgekit.data.sampled_shapes import SampledShapes
from edgekit.graph.constant_inputs import with_constant_inputs
from edgekit.graph.sizes.size_inputs import inputs_of_sizes
from edgekit.model import Model
from edgekit.stages import Stage, StageResult


class FixValues(Stage[Model]):
    """Puts constants in place of inputs.

    Args:
        values: The value of each input, by name, in the input's shape.
        samples: How many samples have these values.
    """

    name = "fix values"

    def __init__(self, values: Mapping[str, np.ndarray], samples: int) -> None:
        self._values = values
        self._samples = samples

    def run(self, given: Model) -> StageResult:
        """Puts the values in."""
        record: dict[str, Any] = {
            "inputs": {name: array.tolist() for name, array in self._values.items()},
            "left_out": list(self._values),
            "samples": self._samples,
            "warnings": [
                f"sizes inside depend on input {name!r}, and the device has to know them: it is fixed to "
                f"{array.tolist()}, its value in all {self._samples} samples, and the built model does not have this "
                "input"
                for name, array in self._values.items()
            ],
        }
        return StageResult(with_constant_inputs(given, self._values), record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        left = [spec.name for spec in given.inputs if spec.name not in self._values]
        if [spec.name for spec in result.model.inputs] != left:
            raise self.broken("other inputs are left out")


def recorded_values(record: Mapping[str, Any]) -> FixValues:
    """The stage as a manifest's record of it describes it."""
    return FixValues({name: np.asarray(value) for name, value in record["inputs"].items()}, record["samples"])


def first_values(model: Model, sampled: SampledShapes) -> dict[str, np.ndarray]:
    """The values in the first sample of the inputs that sizes depend on.

    Raises:
        InputError: The sample is damaged.
    """
    return _first(model, inputs_of_sizes(model), sampled)


def first_integers(model: Model, sampled: SampledShapes) -> dict[str, np.ndarray]:
    """The values in the first sample of the inputs that take integers.

    Raises:
        InputError: The sample is damaged.
    """
    return _first(model, [spec.name for spec in model.inputs if spec.dtype.startswith(("int", "uint"))], sampled)


def _first(model: Model, names: Sequence[str], sampled: SampledShapes) -> dict[str, np.ndarray]:
    arrays = read_npz(sampled.samples[0].file, model.nan_inputs) if names and sampled.samples else {}
    return {name: arrays[name] for name in names if name in arrays}


def sampled_values(model: Model, sampled: SampledShapes) -> dict[str, np.ndarray]:
    """The values of the inputs that sizes depend on, if all samples have the same value.

    Raises:
        InputError: A sample is damaged.
    """
    names = inputs_of_sizes(model)
    values: dict[str, np.ndarray] = {}
    for sample in sampled.samples if names else ():
        arrays = read_npz(sample.file, model.nan_inputs)
        for name in list(names):
            if name not in arrays or not np.array_equal(values.setdefault(name, arrays[name]), arrays[name]):
                names.remove(name)
    return {name: values[name] for name in names if name in values}
