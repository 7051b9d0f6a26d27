"""What one pass over the samples leaves behind of every observed tensor, in memory that does not grow with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.channel_histogram import ChannelHistogram
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.references import Feeds, Reference, References
from edgekit_quantize.calibration.scaling import ChannelScales, Smoothing
from edgekit_quantize.graph.nodes import constant
from edgekit_quantize.integers.qparams import QParams

Scale = Callable[[ChannelHistogram], ChannelScales]
"""Finds the scales of a tensor's channels."""


class ChannelStatistics:
    """Mean and mean square of every channel of a tensor."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = np.zeros(0)
        self._squares = np.zeros(0)
        self.high = np.zeros(0)
        """The largest number of every channel, 0 where all are smaller; ``[C]``."""

    def update(self, array: np.ndarray, axis: int) -> None:
        """Add one sample's tensor, with channels along ``axis``; NaN counts as 0."""
        channels = array.shape[axis]
        rows = _without_nan(np.moveaxis(array, axis, 0).reshape(channels, -1))
        if not self.count:
            self._sum, self._squares, self.high = np.zeros(channels), np.zeros(channels), np.zeros(channels)
        self.count += rows.shape[1]
        self._sum += rows.sum(1)
        self._squares += np.einsum("ij,ij->i", rows, rows)
        self.high = np.maximum(self.high, rows.max(1, initial=0.0))

    def divide(self, factors: np.ndarray) -> None:
        """Make these the statistics of the tensor divided by a factor a channel."""
        self._sum, self._squares, self.high = self._sum / factors, self._squares / factors**2, self.high / factors

    @property
    def mean(self) -> np.ndarray:
        """``[C]``."""
        return self._sum / max(self.count, 1)

    @property
    def mean_square(self) -> np.ndarray:
        """``[C]``."""
        return self._squares / max(self.count, 1)


@dataclass
class TensorStatistics:
    """What is known of one tensor."""

    histogram: Histogram = field(default_factory=Histogram)
    channels: dict[int, ChannelStatistics] = field(default_factory=dict)
    """By axis; negative axes count from the end."""
    smoothing: Smoothing | None = None
    """What it was divided by; all else here is of what that leaves."""
    params: QParams | None = None
    """How it is quantized, where that was decided channel by channel; else a rule decides by the histogram."""
    rounding: np.ndarray | None = None
    """What rounding adds to each channel on average, where that was measured
    (:mod:`edgekit_quantize.rounding.rounding_error`)."""


@dataclass
class Calibration:
    """All that the samples told."""

    tensors: dict[str, TensorStatistics]
    references: References
    samples: int
    warnings: list[str]


def calibrate(
    model: ir.Model,
    wanted: Mapping[str, Iterable[int]],
    feeds: Iterable[tuple[dict[str, np.ndarray], int | None] | tuple[dict[str, np.ndarray], int | None, str]],
    expected: int,
    done: Callable[[int], None] | None = None,
    smoothing: Mapping[str, Smoothing] | None = None,
    by_channel: Mapping[str, Scale] | None = None,
    again: Callable[[], Iterable[Feeds]] | None = None,
) -> Calibration:
    """Walk the samples once.

    Args:
        model: The prepared float model.
        wanted: Names of the tensors to observe, each with the axes along which channels matter.
        feeds: Samples and their labels, and what errors call them.
        expected: How many there are, to spread those that are kept for scoring.
        done: Told after each sample how many are done.
        smoothing: What tensors are divided by.
        by_channel: Tensors that get a scale a channel (axis 1), and what finds it. None of them is among ``smoothing``.
        again: Reads the samples once more, for scoring.
    """
    factors = smoothing or {}
    tensors = {
        name: TensorStatistics(
            Histogram(expected), {axis: ChannelStatistics() for axis in axes}, smoothing=factors.get(name)
        )
        for name, axes in wanted.items()
    }
    outputs = [value.name for value in model.graph.outputs if value.name]
    constants = {value.name: array for value in model.graph.outputs if (array := constant(value)) is not None}
    current: dict[str, np.ndarray] = {}
    references = References(expected, again)
    channels_of = {name: ChannelHistogram(expected) for name in by_channel or {}}

    def take(name: str, array: np.ndarray) -> None:
        if name in outputs:
            current[name] = array
        if name in tensors:
            if name in factors:
                array = array / factors[name].along(array.ndim)
            if name in channels_of:
                channels_of[name].update(array, 1)
            else:
                tensors[name].histogram.update(array)
            for axis, channels in tensors[name].channels.items():
                channels.update(array, axis)

    begun: deque[Reference] = deque()

    def walk() -> Iterator[Feeds]:
        for sample, label, *name in feeds:
            begun.append(Reference(sample, current, label, *name))
            yield sample

    def finish(samples: int) -> None:
        answers = {**constants, **current}
        in_order = {name: answers[name] for name in outputs}  # the first that fits tells the class
        references.offer(replace(begun.popleft(), outputs=in_order))
        current.clear()
        if done is not None:
            done(samples)

    with np.errstate(over="ignore"):
        count = observe(model, {*tensors, *outputs}, walk(), take, finish)
    if count:
        for name, scale in (by_channel or {}).items():
            if not len(channels_of[name].counts):
                continue  # of a branch that no sample took
            _divide(tensors[name], channels_of[name], scale(channels_of[name]))
    return Calibration(tensors, references, count, _not_finite(tensors))


def _divide(tensor: TensorStatistics, channels: ChannelHistogram, scales: ChannelScales) -> None:
    """Make these the statistics of the tensor with a scale a channel."""
    factors = scales.smoothing.factors
    tensor.smoothing, tensor.params = scales.smoothing, scales.params
    tensor.histogram = channels.divided(factors)
    for axis in tensor.channels:
        tensor.channels[axis].divide(factors)


def largest_inputs(
    model: ir.Model, axes: Mapping[str, int], feeds: Iterable[dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The largest magnitude of every channel of the named tensors, with channels along the given axes.

    Tensors of branches that no sample takes are not among them.
    """
    found: dict[str, np.ndarray] = {}

    def take(name: str, array: np.ndarray) -> None:
        axis = axes[name] % array.ndim
        largest = np.abs(_without_nan(array)).max(axis=tuple(i for i in range(array.ndim) if i != axis), initial=0.0)
        found[name] = np.maximum(found.get(name, largest), largest)

    observe(model, axes.keys(), feeds, take)
    return found


def _without_nan(array: np.ndarray) -> np.ndarray:
    """The array with 0 for NaN; itself where it holds none."""
    if not np.isnan(np.min(array, initial=0)):
        return array
    return np.where(np.isnan(array), array.dtype.type(0), array)


def _not_finite(tensors: Mapping[str, TensorStatistics]) -> list[str]:
    return [
        f"the tensor {name!r} took {tensor.histogram.not_finite} values that are NaN or infinite; they were left out"
        for name, tensor in tensors.items()
        if tensor.histogram.not_finite
    ]
