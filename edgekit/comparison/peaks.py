"""Maps of which only the peaks are left, as detectors of points and lines end (CenterNet, M-LSD).

The graph keeps a number if it is the largest of its surroundings: ``x · (MaxPool(x) == x)``. All other numbers are
zeros. If rounding makes the neighbor the largest, a peak moves by one place, and the error has twice the peak's power,
while an app finds the same object. So peaks are compared: a peak counts from a score of
:data:`edgekit.comparison.boxes.matching.CONFIDENT` on, and the other model has it too if it has a score of half of that
or more within the reach of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.comparison.boxes.matching import CONFIDENT, DOUBTFUL
from edgekit.comparison.followed_axes import FORMS, axis_behind
from edgekit.comparison.meaning_accuracy import PEAKS, MeaningAccuracy
from edgekit.model import Arrays

_CHANNELS = 1
"""The axis of the channels in a MaxPool's output."""
_RANK = 4
_COMPARISONS = ("Equal", "GreaterOrEqual", "LessOrEqual")


@dataclass(frozen=True)
class PeakMap:
    """An output of which only the peaks are left; can be pickled."""

    output: str
    classes: int
    """The axis of the classes; along axis 0 lies the batch, along the two others lie the places."""
    reach: int
    """How many places a peak may have moved along each axis."""

    def around(self, scores: np.ndarray) -> np.ndarray:
        """Returns, for each place, the largest score within the reach."""
        for axis in range(1, scores.ndim):
            if axis != self.classes:
                wide = np.pad(scores, [(self.reach if each == axis else 0,) * 2 for each in range(scores.ndim)])
                scores = np.lib.stride_tricks.sliding_window_view(wide, 2 * self.reach + 1, axis).max(axis=-1)
        return scores


class PeakMeaning:
    """Counts peaks that only one of two models finds; see :class:`edgekit.comparison.meaning.Meaning`."""

    def __init__(self, maps: Sequence[PeakMap]) -> None:
        self._maps = tuple(maps)
        self._count = self._wrong = self._of_original = 0

    def add(self, reference: Mapping[str, np.ndarray], built: Mapping[str, np.ndarray]) -> None:
        """Compares what two models find in one more sample."""
        for each in self._maps:
            ours, theirs = (np.nan_to_num(outputs[each.output]) for outputs in (reference, built))
            self._of_original += int(np.count_nonzero(ours >= CONFIDENT))
            for one, other in ((ours, theirs), (theirs, ours)):
                found = one >= CONFIDENT
                self._count += int(np.count_nonzero(found))
                self._wrong += int(np.count_nonzero(found & (each.around(other) < DOUBTFUL)))

    def result(self) -> MeaningAccuracy:
        """What the samples so far say."""
        outputs = tuple(each.output for each in self._maps)
        reach = max(each.reach for each in self._maps)
        places = f"{reach} place{'s' if reach != 1 else ''}"
        read_as = f"scores of {CONFIDENT} or more that are the largest around; a peak may move by {places}"
        return MeaningAccuracy(PEAKS, outputs, read_as, self._count, self._wrong, None, of_original=self._of_original)

    def anew(self) -> PeakMeaning:
        """Returns a new object for the same outputs, without samples."""
        return PeakMeaning(self._maps)


def peaks_among(answers: Sequence[Arrays], graph: ir.Graph | None) -> PeakMeaning | None:
    """Returns how a model's peaks are compared, or None if no output is a map of peaks.

    The scores have to lie between 0 and 1, and to reach :data:`edgekit.comparison.boxes.matching.DOUBTFUL`.

    Args:
        answers: The original's outputs on a few samples.
        graph: The model's graph; None if it is not at hand.
    """
    maps = []
    for value in graph.outputs if graph is not None and answers else ():
        shown = [answer[str(value.name)] for answer in answers]
        if any(each.dtype.kind != "f" or each.ndim != _RANK or not np.isfinite(each).all() for each in shown):
            continue
        scores = [each for each in shown if each.size]
        if not scores or min(each.min() for each in scores) < 0 or max(each.max() for each in scores) > 1:
            continue
        found = _peak_map(value, scores[0].shape)
        if found is not None and max(each.max() for each in scores) >= DOUBTFUL:
            maps.append(found)
    return PeakMeaning(maps) if maps else None


def _peak_map(output: ir.Value, shape: Sequence[int]) -> PeakMap | None:
    """Returns how the graph leaves the peaks of an output, or None if it does not."""
    kept, behind = _followed(output)
    node = kept.producer()
    if node is None or node.domain or node.op_type not in ("Mul", "Where"):
        return None
    for scores, where in _parts(node):
        compared = _followed(where)[0].producer()
        if compared is None or compared.domain or compared.op_type not in _COMPARISONS:
            continue
        source, way = _followed(scores)
        reach = _reach(compared, source)
        if reach is None:
            continue
        axis = axis_behind(source, _CHANNELS, [*behind, node, *way])
        if axis is None and shape[-1] == 1:
            axis = len(shape) - 1
        elif axis is None and shape[_CHANNELS] == 1:
            axis = _CHANNELS
        return None if axis is None else PeakMap(str(output.name), axis, reach)
    return None


def _parts(node: ir.Node) -> list[tuple[ir.Value, ir.Value]]:
    """Returns what may be the scores and the comparison that keeps them, of a Mul or a Where."""
    inputs = [value for value in node.inputs if value is not None]
    if node.op_type == "Where":
        return [(inputs[1], inputs[0])]
    return [(inputs[0], inputs[1]), (inputs[1], inputs[0])]


def _reach(compared: ir.Node, source: ir.Value) -> int | None:
    """Returns how far a pool looks whose result a node compares with its input; None for other comparisons.

    Args:
        compared: The node that compares.
        source: The scores that are kept: the pool's input, or the pool's result, which is the same at a peak.
    """
    one, other = (_followed(value)[0] for value in compared.inputs if value is not None)
    for pooled, scores in ((one, other), (other, one)):
        pool = pooled.producer()
        if pool is None or pool.domain or pool.op_type != "MaxPool" or pool.inputs[0] is None:
            continue
        sizes, steps = pool.attributes.get_ints("kernel_shape", ()), pool.attributes.get_ints("strides", ())
        if _followed(pool.inputs[0])[0] is scores and source in (scores, pooled) and all(step == 1 for step in steps):
            return max(sizes) // 2
    return None


def _followed(value: ir.Value) -> tuple[ir.Value, list[ir.Node]]:
    """Returns the value that nodes of :data:`FORMS` made another one of, and these nodes, the last one first."""
    way: list[ir.Node] = []
    while (node := value.producer()) is not None and not node.domain and node.op_type in FORMS:
        if node.inputs[0] is None:
            break
        way.append(node)
        value = node.inputs[0]
    return value, way
