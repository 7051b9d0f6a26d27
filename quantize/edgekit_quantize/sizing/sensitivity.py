"""Measures the noise that each form of each weight adds to the outputs, by executing the model with one weight changed.

The outputs are those of :func:`edgekit_quantize.search.output_noise.outputs_before_swallowing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.references import References
from edgekit_quantize.graph.nodes import home, initializers
from edgekit_quantize.graph.session import session
from edgekit_quantize.search.output_noise import noise_between, outputs_before_swallowing
from edgekit_quantize.search.variances import variances_of
from edgekit_quantize.search.work import A_SECOND, work_of
from edgekit_quantize.sizing.allocation import Choice
from edgekit_quantize.sizing.forms import Storage
from edgekit_quantize.sizing.weights import FLOAT_FORM, Weight

SAMPLES = 8
"""The number of samples on which noise is measured; fewer if that would exceed :data:`MOST_WORK`."""
FEWEST_SAMPLES = 2
MOST_WORK = 60 * A_SECOND
"""The maximum work of all executions together (:func:`edgekit_quantize.search.work.work_of`): a minute."""


class FedModel:
    """The model with weights as inputs, so that one session executes it with any of them changed.

    Args:
        prepared: The prepared float model; it is not changed.
        names: The constants that become inputs.
    """

    def __init__(self, prepared: ir.Model, names: Sequence[str]) -> None:
        model = prepared.clone()
        self._weights: dict[str, np.ndarray] = {}
        constants = initializers(model.graph)
        for name in names:
            value = constants[name]
            home(value).initializers.pop(name)
            if value.const_value is None:
                raise ValueError(f"{name!r} is not constant")
            self._weights[name] = value.const_value.numpy()
            value.const_value = None
            model.graph.inputs.append(value)
        self._outputs = outputs_before_swallowing(model.graph)
        self._session = session(model)
        self._model = model

    def run(self, feeds: Mapping[str, np.ndarray], changed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name, with some weights changed."""
        found = self._session.run(self._outputs, {**feeds, **self._weights, **changed})
        return dict(zip(self._outputs, found, strict=True))

    def work(self, feeds: Mapping[str, np.ndarray]) -> float:
        """The work of one run (:func:`edgekit_quantize.search.work.work_of`)."""
        return work_of(self._model, {**feeds, **self._weights})


def measured_choices(
    prepared: ir.Model,
    weights: Mapping[str, Weight],
    storage: Storage,
    references: References,
    done: Callable[[int, int], None],
) -> dict[str, list[Choice]]:
    """The forms of every weight, each with its size and its noise: power of the outputs' error over their variance.

    Args:
        prepared: The prepared float model.
        weights: The weights, by their constants' names.
        storage: The forms that the target has.
        references: Samples with the float model's answers.
        done: Called with the number of weights that are measured and the total.
    """
    fed = FedModel(prepared, [*weights])
    samples = [each.feeds for each in references.spread(SAMPLES)]
    runs = fed.work(samples[0]) * sum(1 for weight in weights.values() for _ in weight.choices(storage))
    samples = samples[: max(FEWEST_SAMPLES, min(SAMPLES, int(MOST_WORK / max(runs, 1))))]
    before = [fed.run(feeds, {}) for feeds in samples]
    spread = variances_of(before)
    found: dict[str, list[Choice]] = {}
    for place, (name, weight) in enumerate(weights.items()):
        shape = weight.matrix.shape
        found[name] = [Choice(FLOAT_FORM, weight.matrix.size * storage.float_bytes, 0.0)]
        for form in weight.choices(storage):
            changed = {name: weight.rounded(form)}
            noise = 0.0
            for feeds, expected in zip(samples, before, strict=True):
                noise += noise_between(expected, fed.run(feeds, changed), spread)
            found[name].append(Choice(form.name, form.bytes(shape, storage.scale_bytes), noise))
        done(place + 1, len(weights))
    return found
