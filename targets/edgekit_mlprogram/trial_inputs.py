"""Inputs on which a float16 program is compared with the float32 program.

Nobody knows what a model will be fed; so where there are no samples, several kinds of random numbers stand in. A
program that is near enough on one kind may lose far more on another: what a normalization divides by, or what a sum
cancels to, follows the distribution.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit.data.columns import Columns
from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import Interval, Limits, index_limits
from edgekit.features.dimensions import OpenDims, defaults
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import Model, ValueSpec

Arrays = Mapping[str, np.ndarray]

COMPARED, FURTHER = 2, 2
"""Numbers of inputs of each kind: on which all programs are executed, and on which only the float32 program is."""
FEW_SYMBOLS = 2
"""Integers are below this number in every second input: with few different symbols there is little variance for a
normalization to divide by."""


@dataclass(frozen=True)
class TrialInputs:
    """Inputs of one kind."""

    compared: Sequence[Arrays]
    """Inputs on which programs are compared."""
    further: Sequence[Arrays] = ()
    """Inputs for the float32 program alone: how quiet its outputs become there tells how much noise they tolerate."""


def random_trials(model: Model, dimensions: OpenDims) -> list[TrialInputs]:
    """Random inputs of several kinds: standard normal, uniform from 0 to 1, and uniform from -1 to 1.

    Inputs have integers of the whole range and integers below FEW_SYMBOLS alternately. A model without floating-point
    inputs gets one kind.

    Args:
        model: The model that takes the inputs.
        dimensions: The sizes of the model's open dimensions; the inputs have the default sizes.
    """
    inputs = at_sizes(model.inputs, defaults(dimensions))
    limits = index_limits(model)
    few = limits | {
        spec.name: FEW_SYMBOLS
        for spec in inputs
        if np.dtype(spec.dtype).kind in "iu" and not isinstance(limits.get(spec.name), tuple | Columns)
    }
    has_floats = any(np.dtype(spec.dtype).kind == "f" for spec in inputs)
    trials = []
    for number, draw in enumerate(_KINDS if has_floats else _KINDS[:1]):
        first = number * (COMPARED + FURTHER)
        drawn = [
            _drawn(inputs, seed, few if seed % 2 else limits, draw) for seed in range(first, first + COMPARED + FURTHER)
        ]
        trials.append(TrialInputs(drawn[:COMPARED], drawn[COMPARED:]))
    return trials


Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

_KINDS: tuple[Draw, ...] = (
    lambda rng, shape: rng.standard_normal(shape),
    lambda rng, shape: rng.random(shape),
    lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
)


def _drawn(inputs: Sequence[ValueSpec], seed: int, limits: Limits, draw: Draw) -> Arrays:
    """One value for every input."""
    arrays = seeded_inputs(inputs, seed, limits)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not isinstance(limits.get(name), Interval):
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            arrays[name] = draw(rng, array.shape).astype(array.dtype)
    return arrays
