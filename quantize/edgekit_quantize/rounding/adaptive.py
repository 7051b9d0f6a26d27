"""Rounds the weights of a plan's layers adaptively, which takes a second pass over the samples."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgekit.processes.matrix_products import on_one_thread
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.moments import LONGEST_ROW, moments_bytes, row_length, rows_of, taken_rows
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import TensorStatistics
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import home
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.integers.stored_weights import FEWEST, layer_params, stored_name
from edgekit_quantize.placement import Plan
from edgekit_quantize.rounding.held_out import EVERY_OTHER, Basis, Halves, Parts, Seconds

WATCHED_BYTES = 256 * 2**20
"""The memory limit, in bytes, for moments of layers in one pass, and for moments that are kept for another plan; the
moments of one layer with the longest rows take 24 MB."""


@dataclass(frozen=True)
class _Rounded:
    """A layer whose weights are to be rounded."""

    name: str
    """The key of its integers in the result."""
    layer: Layer
    params: QParams
    smoothing: Smoothing | None
    """The factors that divide its input and multiply its weights."""

    @property
    def rows(self) -> Hashable:
        """A key for the rows that the layer takes of its input: layers with equal keys share their moments."""
        return self.layer.data.name, taken_rows(self.layer)

    def of_divided(self, seconds: Seconds) -> Seconds:
        """The second moments of the rows that the layer multiplies, which are divided by its smoothing factors."""
        if self.smoothing is None:
            return seconds
        factors = self.smoothing.factors.astype(np.float64)
        # of patches: the channel, then the kernel position
        return seconds.over(np.repeat(factors, len(seconds.fitted) // len(factors)))


@dataclass(frozen=True)
class Chosen:
    """Integers for the weights of layers."""

    integers: dict[str, np.ndarray] = field(default_factory=dict)
    """The integers by the layer's name; for stored weights, by
    :func:`~edgekit_quantize.integers.stored_weights.stored_name`. Layers that should be rounded to nearest are left
    out."""
    of_part: set[str] = field(default_factory=set)
    """The names of those that were fitted to one part of the samples (:class:`Parts`)."""


@on_one_thread()  # the descent goes channel by channel: matrix products take a small part of its time
def adaptively_rounded(
    model: ir.Model,
    plan: Plan,
    tensors: Mapping[str, TensorStatistics],
    feeds: Callable[[], Iterable[Mapping[str, np.ndarray]]],
    done: Callable[[int, int], None] | None = None,
    known: MutableMapping[Hashable, Seconds] | None = None,
    parts: Parts = EVERY_OTHER,
) -> Chosen:
    """Integers for the weights of every layer of the plan that is one matrix product, and on other samples gains by it.

    A layer that sees few rows is fitted to one part of the samples, or rounded to nearest
    (:mod:`edgekit_quantize.rounding.held_out`).

    If the moments of all layers take more than :data:`WATCHED_BYTES` together, layers are observed in groups, with one
    pass over the samples for each group.

    Args:
        model: The prepared float model that the plan was made for.
        plan: Which layers are quantized, and which only store their weights as integers.
        tensors: Statistics of the layers' inputs, with their smoothing.
        feeds: Reads the samples.
        done: Called with the number of layers that are done and the total.
        known: Second moments of rows by :attr:`_Rounded.rows`, from other plans of this model and these samples; the
            moments that this plan adds are kept here too, up to :data:`WATCHED_BYTES` together.
        parts: How the samples are divided.
    """
    alike: dict[Hashable, list[_Rounded]] = {}
    for each in (*_quantized(plan, tensors), *_stored(model, plan)):
        length = row_length(each.layer)
        if length is not None and length <= LONGEST_ROW:
            alike.setdefault(each.rows, []).append(each)
    total = sum(map(len, alike.values()))
    chosen = Chosen()
    count = itertools.count(1)
    known = {} if known is None else known

    def take(some: Sequence[_Rounded], seconds: Seconds) -> None:
        for each in some:
            integers, basis = _integers(each, each.of_divided(seconds), parts)
            if integers is not None:
                chosen.integers[each.name] = integers
            if basis is Basis.PART:
                chosen.of_part.add(each.name)
            if done is not None:
                done(next(count), total)

    for rows, some in alike.items():
        if rows in known:
            take(some, known[rows])
    for group in _groups(some for rows, some in alike.items() if rows not in known):
        observed = _observed(model, group, feeds(), parts)
        while observed:  # entries are removed once done: moments take as much memory as the part of them that is kept
            some, halves = observed.popleft()
            seconds = halves.seconds
            if seconds is None:
                continue  # the layer is in a branch that no sample took
            take(some, seconds)
            if sum(each.nbytes for each in known.values()) + seconds.nbytes <= WATCHED_BYTES:
                known[some[0].rows] = seconds
    return chosen


def _groups(alike: Iterable[list[_Rounded]]) -> Iterator[list[list[_Rounded]]]:
    """Groups of lists of layers that share their moments; each group's moments fit into ``WATCHED_BYTES``."""
    group: list[list[_Rounded]] = []
    held = 0
    for some in alike:
        size = 2 * moments_bytes(row_length(some[0].layer) or 0)
        if group and held + size > WATCHED_BYTES:
            yield group
            group, held = [], 0
        group.append(some)
        held += size
    if group:
        yield group


def _observed(
    model: ir.Model, group: Sequence[list[_Rounded]], feeds: Iterable[Mapping[str, np.ndarray]], parts: Parts
) -> deque[tuple[list[_Rounded], Halves]]:
    """Each list of layers in the group, with the moments of the rows that its layers take of their input."""
    found = deque((some, Halves(row_length(some[0].layer) or 0)) for some in group)
    readers: dict[str, list[tuple[Layer, Halves]]] = {}
    for some, halves in found:
        readers.setdefault(some[0].layer.data.name or "", []).append((some[0].layer, halves))
    place = 0

    def take(name: str, array: np.ndarray) -> None:
        for layer, halves in readers[name]:
            halves.update(rows_of(layer, array, parts.rows_each), place, parts)

    def turn(done: int) -> None:
        nonlocal place
        place = done

    observe(model, readers.keys(), feeds, take, turn)
    return found


def _quantized(plan: Plan, tensors: Mapping[str, TensorStatistics]) -> Iterator[_Rounded]:
    for layer in plan.layers:
        source = layer.data.name or ""
        smoothing = tensors[source].smoothing
        weights = layer.weights() if smoothing is None else smoothing.into(layer)
        yield _Rounded(layer.name, layer, plan.weight_params(layer, weights, tensors, source), smoothing)


def _stored(model: ir.Model, plan: Plan) -> Iterator[_Rounded]:
    """Stored layers with one scale per output channel: with blocks, the errors of a channel would differ in step."""
    observable = reachable(model.graph)
    for layer in plan.stored:
        dtype, block = plan.stored_form(layer)
        if not block and layer.weights().size >= FEWEST and home(layer.node) in observable:
            yield _Rounded(stored_name(layer), layer, layer_params(layer, dtype, block), None)


def _integers(each: _Rounded, seconds: Seconds, parts: Parts) -> tuple[np.ndarray | None, Basis]:
    """The weights' integers, in the weights' shape, and what they were fitted to; None rounds to nearest."""
    layer = each.layer
    weights = layer.weights() if each.smoothing is None else each.smoothing.into(layer)
    by_output = weights.reshape(len(weights), -1) if layer.channel_axis == 0 else weights.T
    integers, basis = seconds.rounded(by_output, each.params, parts)
    if integers is None:
        return None, basis
    return (integers if layer.channel_axis == 0 else integers.T).reshape(weights.shape), basis
