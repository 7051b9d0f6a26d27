"""Measures the noise that storing the weights of one layer adds at the outputs, by executing the model so.

Statistics of a layer's inputs do not show it: the weights of a speech encoder's first LSTM, which read powers from 1e-6
to 600, have the same signal-to-noise ratio as those of its other layers, but add 98% of the noise at the output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.references import Feeds, References
from edgekit_quantize.graph.nodes import initializers
from edgekit_quantize.graph.session import session
from edgekit_quantize.search.output_noise import MOST_WORK, SAMPLES, noise_between, outputs_before_swallowing
from edgekit_quantize.search.variances import variances_of
from edgekit_quantize.search.work import work_of

MOST_BYTES = 2**29
"""The maximum of constants that are written and loaded in all, once for each layer: a few seconds."""


def noise_of_stored(
    prepared: ir.Model,
    layers: Sequence[str],
    written: Callable[[Collection[str]], ir.Model],
    references: References,
    done: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """The noise at the outputs from rounding the weights of each layer: power of the error over the outputs' variance.

    Empty if that takes too long, or if there are fewer than two layers.

    Args:
        prepared: The prepared float model.
        layers: The layers whose weights are stored.
        written: Returns the model with all weights stored, except for those of the given layers.
        references: Samples.
        done: Called with the number of layers that are measured and the total.
    """
    samples: list[Feeds] = [each.feeds for each in references.spread(SAMPLES)]
    size = sum(array.const_value.nbytes for array in initializers(prepared.graph).values() if array.const_value)
    if len(layers) < 2 or not samples or size * len(layers) > MOST_BYTES:
        return {}
    most = int(MOST_WORK / work_of(prepared, samples[0]) / len(layers))
    if not most:
        return {}
    samples = samples[:most]
    expected = _outputs(written(layers), samples)
    spread = variances_of(expected)
    found = {}
    for layer in layers:
        outputs = _outputs(written([each for each in layers if each != layer]), samples)
        found[layer] = sum(noise_between(*pair, spread) for pair in zip(expected, outputs, strict=True))
        if done is not None:
            done(len(found), len(layers))
    return found


def _outputs(model: ir.Model, samples: Sequence[Feeds]) -> list[Mapping[str, np.ndarray]]:
    """The outputs of the model for each sample; of those that Softmax or Sigmoid compute, their inputs."""
    model = model.clone()
    names = outputs_before_swallowing(model.graph)
    opened = session(model)
    return [dict(zip(names, opened.run(names, dict(feeds)), strict=True)) for feeds in samples]
