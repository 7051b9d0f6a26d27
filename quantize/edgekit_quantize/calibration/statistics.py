"""Statistics of every observed tensor from one pass over the samples, in memory that does not grow with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.channel_histogram import ChannelHistogram
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.limits import UNLIMITED
from edgekit_quantize.calibration.references import Again, Feeds, Reference, References
from edgekit_quantize.calibration.scaling import ChannelScales, Smoothing
from edgekit_quantize.graph.nodes import constant, is_standard
from edgekit_quantize.integers.qparams import QParams

HANDS_INFINITY_ON = (
    *("Add", "Cast", "Concat", "ConstantOfShape", "Expand", "Gather", "Identity", "Max", "MaxPool", "Min", "Pad"),
    *("Reshape", "ScatterND", "Slice", "Split", "Squeeze", "Transpose", "Trilu", "Unsqueeze", "Where"),
)
"""Operators that neither create infinity from other numbers nor remove it."""
Scale = Callable[[ChannelHistogram], ChannelScales]
"""Finds the scales of a tensor's channels."""
Labelled = tuple[Feeds, int | None] | tuple[Feeds, int | None, str]
"""The inputs of a sample, its label, and its name in error messages."""


class ChannelStatistics:
    """Mean and mean square of every channel of a tensor."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = np.zeros(0)
        self._squares = np.zeros(0)
        self.high = np.zeros(0)
        """The largest number of every channel, or 0 if all are negative; ``[C]``."""

    def update(self, array: np.ndarray, axis: int) -> None:
        """Add one sample's tensor, with channels along ``axis``; numbers that are NaN or infinite count as 0."""
        channels = array.shape[axis]
        rows = np.moveaxis(array, axis, 0).reshape(channels, -1)
        squares = np.einsum("ij,ij->i", rows, rows)
        if not np.isfinite(squares).all():
            rows = _finite(rows)
            squares = np.einsum("ij,ij->i", rows, rows)
        if not self.count:
            self._sum, self._squares, self.high = np.zeros(channels), np.zeros(channels), np.zeros(channels)
        self.count += rows.shape[1]
        self._sum += rows.sum(1)
        self._squares += squares
        self.high = np.maximum(self.high, rows.max(1, initial=0.0))

    def divide(self, factors: np.ndarray) -> None:
        """Convert the statistics to those of the tensor divided by a factor per channel."""
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
    """The statistics of one tensor, and how it is quantized."""

    histogram: Histogram = field(default_factory=Histogram)
    channels: dict[int, ChannelStatistics] = field(default_factory=dict)
    """Statistics of channels, by axis; negative axes count from the end."""
    smoothing: Smoothing | None = None
    """The factors that the tensor was divided by; the statistics are those of the divided tensor."""
    params: QParams | None = None
    """How the tensor is quantized, if that was decided channel by channel; else a rule decides by the histogram."""
    rounding: np.ndarray | None = None
    """The mean rounding error of each channel; None if it was not measured
    (:mod:`edgekit_quantize.rounding.rounding_error`)."""
    tells_answers: bool = False
    """Whether the tensor holds logits of yes/no answers (:mod:`edgekit_quantize.calibration.answers`)."""
    limits: tuple[float, float] = UNLIMITED
    """The limits of the tensor before it was divided, for any sample (:mod:`edgekit_quantize.calibration.limits`)."""


@dataclass
class Calibration:
    """The result of calibration on the samples."""

    tensors: dict[str, TensorStatistics]
    references: References
    samples: int
    warnings: list[str]
    narrow: Sequence[str] = ()
    """Warnings of ranges that may be too narrow, for a model with calibrated ranges."""


def calibrate(
    model: ir.Model,
    wanted: Mapping[str, Iterable[int]],
    feeds: Iterable[Labelled],
    expected: int,
    done: Callable[[int], None] | None = None,
    smoothing: Mapping[str, Smoothing] | None = None,
    by_channel: Mapping[str, Scale] | None = None,
    again: Again | None = None,
) -> Calibration:
    """Collect the statistics of tensors in one pass over the samples.

    Args:
        model: The prepared float model.
        wanted: Names of the tensors to observe, each with the axes along which channels matter.
        feeds: The samples.
        expected: The number of samples, to spread those that are kept for scoring.
        done: Called after each sample with the number of samples that are done.
        smoothing: The factors that tensors are divided by.
        by_channel: Functions that find the scales of tensors with a scale per channel (axis 1), by name. None of these
            tensors is in ``smoothing``.
        again: Reads samples again, for scoring.
    """
    one_pass = _Pass(model, wanted, References(expected, again), expected, smoothing or {}, by_channel or {})

    def finish(samples: int) -> None:
        one_pass.finish_sample()
        if done is not None:
            done(samples)

    with np.errstate(over="ignore"):
        count = observe(model, one_pass.observed, one_pass.begin(feeds), one_pass.take, finish)
    one_pass.find_scales()
    return Calibration(one_pass.tensors, one_pass.references, count, _not_finite(one_pass.tensors, model.graph))


class _Pass:
    """The state of a pass over the samples; see :func:`calibrate` for the arguments."""

    def __init__(
        self,
        model: ir.Model,
        wanted: Mapping[str, Iterable[int]],
        references: References,
        expected: int,
        factors: Mapping[str, Smoothing],
        by_channel: Mapping[str, Scale],
    ) -> None:
        self.tensors = {
            name: TensorStatistics(
                Histogram(expected), {axis: ChannelStatistics() for axis in axes}, smoothing=factors.get(name)
            )
            for name, axes in wanted.items()
        }
        self.references = references
        outputs = [value for value in model.graph.outputs if value.name]
        self._outputs = [str(value.name) for value in outputs]
        self._constants = {str(value.name): array for value in outputs if (array := constant(value)) is not None}
        self._by_channel = by_channel
        self._channels = {name: ChannelHistogram(expected) for name in by_channel}
        self._begun: deque[Reference] = deque()
        self._answers: dict[str, np.ndarray] = {}

    @property
    def observed(self) -> set[str]:
        """The tensors that :meth:`take` needs, by name."""
        return {*self.tensors, *self._outputs}

    def begin(self, feeds: Iterable[Labelled]) -> Iterator[Feeds]:
        """The inputs of each sample; a sample may begin before the one before is finished."""
        for sample, label, *name in feeds:
            self._begun.append(Reference(sample, {}, label, *name))
            yield sample

    def take(self, name: str, array: np.ndarray) -> None:
        """Add a tensor of the oldest unfinished sample."""
        if name in self._outputs:
            self._answers[name] = array
        tensor = self.tensors.get(name)
        if tensor is None:
            return
        if tensor.smoothing is not None:
            array = array / tensor.smoothing.along(array.ndim)
        if name in self._channels:
            self._channels[name].update(array, 1)
        else:
            tensor.histogram.update(array)
        for axis, channels in tensor.channels.items():
            channels.update(array, axis)

    def finish_sample(self) -> None:
        """Keep the model's answer to the oldest unfinished sample."""
        answers = {**self._constants, **self._answers}
        in_order = {name: answers[name] for name in self._outputs}  # the first output that fits is the class
        self.references.offer(replace(self._begun.popleft(), outputs=in_order))
        self._answers.clear()

    def find_scales(self) -> None:
        """Find the scales of channels; a tensor of a branch that no sample took has none."""
        for name, scale in self._by_channel.items():
            channels = self._channels[name]
            if len(channels.counts):
                _divide(self.tensors[name], channels, scale(channels))


def _divide(tensor: TensorStatistics, channels: ChannelHistogram, scales: ChannelScales) -> None:
    """Convert the statistics of a tensor to those with a scale per channel."""
    factors = scales.smoothing.factors
    tensor.smoothing, tensor.params = scales.smoothing, scales.params
    tensor.histogram = channels.divided(factors)
    for axis in tensor.channels:
        tensor.channels[axis].divide(factors)


def largest_inputs(
    model: ir.Model, axes: Mapping[str, int], feeds: Iterable[dict[str, np.ndarray]]
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """The largest magnitude of every channel of the named tensors, and how many numbers per channel were observed.

    Tensors of branches that no sample takes are left out.

    Args:
        model: The prepared float model.
        axes: The axis of the channels of each tensor.
        feeds: The samples.
    """
    found: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}

    def take(name: str, array: np.ndarray) -> None:
        axis = axes[name] % array.ndim
        largest = np.abs(_finite(array)).max(axis=tuple(i for i in range(array.ndim) if i != axis), initial=0.0)
        found[name] = np.maximum(found.get(name, largest), largest)
        counts[name] = counts.get(name, 0) + array.size // max(array.shape[axis], 1)

    observe(model, axes.keys(), feeds, take)
    return found, counts


def _finite(array: np.ndarray) -> np.ndarray:
    """The array with 0 instead of NaN and infinity; the array itself if all its numbers are finite."""
    if np.isfinite(np.min(array, initial=0)) and np.isfinite(np.max(array, initial=0)):
        return array
    return np.where(np.isfinite(array), array, array.dtype.type(0))


def _not_finite(tensors: Mapping[str, TensorStatistics], graph: ir.Graph) -> list[str]:
    """Warnings of tensors with NaN, or with infinity that does not come from the graph's constants."""
    strange = {name: tensor.histogram for name, tensor in tensors.items() if tensor.histogram.not_finite}
    values = {value.name: value for node in graph.all_nodes() for value in node.outputs} if strange else {}
    return [
        f"the tensor {name!r} took {_values(histogram.not_finite)} NaN or infinite, left out of its statistics"
        for name, histogram in strange.items()
        if histogram.holds_nan or name not in values or not _is_infinite_by_itself(values[name])
    ]


def _values(count: int) -> str:
    return "1 value that is" if count == 1 else f"{count} values that are"


def _is_infinite_by_itself(value: ir.Value) -> bool:
    """Whether the value's infinity comes from a constant, such as the padding of a MaxPool or the mask of a Softmax."""
    waiting, seen = [value], {value}
    while waiting:
        node = waiting.pop().producer()
        if node is None or not is_standard(node, *HANDS_INFINITY_ON):
            continue
        fill = node.attributes.get("value")
        numbers = [constant(each) for each in node.inputs] + ([] if fill is None else [fill.as_tensor().numpy()])
        if any(number is not None and number.dtype.kind == "f" and np.isinf(number).any() for number in numbers):
            return True
        reached = {each for each in node.inputs if each is not None} - seen
        seen |= reached
        waiting += reached
    return False
