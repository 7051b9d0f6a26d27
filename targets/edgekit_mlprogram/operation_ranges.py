"""What each operation of a float32 program does on examples: how large its numbers are, and what float16 would lose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from edgekit.comparison.numbers.metrics import decibels
from edgekit_mil.passes.masking_constants import FARTHEST
from edgekit_mlprogram.masks import Masks
from edgekit_mlprogram.reach import Reach
from edgekit_mlruntime.executor import Observer, Step
from edgekit_mlruntime.precision import round_to_half

HEADROOM = 4.0
"""How many times larger a value may become on other inputs before it overflows."""
LARGEST = float(np.finfo(np.float16).max) / HEADROOM
MOST_KNOWN_BYTES = 64 << 20
"""Arrays of at most 64 MiB in all are remembered with what is known of them, the most recently used ones."""
NOT_REPEATABLE = ("list_", "make_list", "read_state", "write_state", "coreml_update_state", "random_")
"""Operations, by the beginning of their names, that must not be executed a second time."""


class ObservableProgram(Protocol):
    """A program that calls an observer for every operation it executes."""

    def run(self, feeds: Mapping[str, np.ndarray], *, observer: Observer | None = None) -> dict[str, np.ndarray]:
        """The outputs by name."""


@dataclass
class OperationRange:
    """What one operation did on the examples."""

    op_type: str
    largest: float = 0.0
    """Largest magnitude among its float inputs and results."""
    lowest: float = math.inf
    """The least of its float results; infinite where it has none."""
    signal: float = 0.0
    noise: float = 0.0
    """Energy of its results, and of the change in them when its inputs and results are rounded to float16."""
    vanishing: float = 0.0
    """The largest share of a result's nonzero numbers that float16 rounds to zero."""
    producers: set[str] = field(default_factory=set)

    reaches: bool = False
    """Whether it reads or gives numbers that are selected from larger ones; see :mod:`edgekit_mlprogram.reach`."""
    masks: bool = False
    """Whether it masks positions by a constant; see :mod:`edgekit_mlprogram.masks`."""

    @property
    def may_overflow(self) -> bool:
        """Whether what it reads or gives may leave float16's range on other inputs."""
        return self.reaches or self.masks or self.largest > LARGEST

    @property
    def gives_magnitudes(self) -> bool:
        """Whether it has float results, none of which is negative."""
        return 0 <= self.lowest < math.inf

    @property
    def local_db(self) -> float:
        """Signal-to-noise ratio of the operation alone in float16."""
        return decibels(self.signal, self.noise)


@dataclass(frozen=True)
class RangesAndOutputs:
    """The ranges and outputs of a float32 program on examples."""

    ranges: dict[str, OperationRange]
    """The range of each operation, by its name, in the order of execution."""
    outputs: Sequence[dict[str, np.ndarray]]
    """The program's outputs on each example."""


def study(runner: ObservableProgram, examples: Sequence[Mapping[str, np.ndarray]]) -> RangesAndOutputs:
    """Execute a float32 program and note every operation's range and sensitivity."""
    known = _Known()
    masks = Masks(lambda array: known.of(array).largest, known.bound)
    studied = _studied(runner, examples, known, masks)
    return replace(studied, ranges=_studied(runner, examples, _Known(), None).ranges) if masks.are_read else studied


def _studied(
    runner: ObservableProgram, examples: Sequence[Mapping[str, np.ndarray]], known: _Known, masks: Masks | None
) -> RangesAndOutputs:
    """Returns what :func:`study` does; if ``masks`` is None, large constants are ordinary numbers."""
    ranges: dict[str, OperationRange] = {}
    writers: dict[int, str] = {}
    reach = Reach(lambda array: known.of(array).largest, LARGEST)

    def observe(step: Step, frame: Sequence[Any], results: Sequence[Any]) -> None:
        name = step.call.name
        found = ranges.setdefault(name, OperationRange(step.call.op_type))
        writers.update(dict.fromkeys(step.output_slots, name))
        for argument in step.arguments:
            found.producers.update(writers[s] for s in argument.sources if isinstance(s, int) and s in writers)
        if step.blocks:
            return
        inputs = step.inputs(frame)
        found.masks |= masks is not None and masks.follow(step, inputs, results)
        found.reaches |= reach.follow(step, inputs, results)
        for array in floats([*inputs.values(), *results]):
            found.largest = max(found.largest, known.of(array).largest)
        for array in floats(results):
            found.vanishing = max(found.vanishing, known.of(array).vanishing)
            found.lowest = min(found.lowest, float(array.min(initial=math.inf)))
        if step.call.op_type.startswith(NOT_REPEATABLE) or not any(True for _ in floats(results)):
            return
        rounded = step.evaluate({key: known.halved(value) for key, value in inputs.items()})
        for exact, rough in zip(floats(results), floats(rounded), strict=True):
            usable, seen = np.isfinite(exact), known.of(exact)
            pair = seen.bounded(exact), seen.bounded(halved(rough))
            whole, half = (each.ravel() if usable.all() else each[usable] for each in pair)
            found.signal += float(np.square(whole, dtype=np.float64).sum())
            found.noise += float(np.square(np.subtract(whole, half, dtype=np.float64)).sum())

    found = []
    for feeds in examples:
        found.append(runner.run(feeds, observer=observe))
        if masks is not None:
            masks.look_at(found[-1])
    return RangesAndOutputs(ranges, found)


@dataclass(frozen=True)
class _Seen:
    """What is known of an array."""

    array: np.ndarray
    """Kept alive so that no other array gets its ``id``, by which it is found again."""
    half: np.ndarray
    """The array as a float16 program holds it."""
    largest: float
    """Largest magnitude among the array's finite numbers."""
    vanishing: float
    """The share of the array's nonzero numbers that float16 rounds to zero."""
    masks: bool = False
    """Whether some of its numbers mask positions, so that the program bounds it where it becomes float16."""

    def bounded(self, array: np.ndarray) -> np.ndarray:
        """Returns another array clipped as this array is in float16: to ±FARTHEST if some of its numbers mask."""
        return np.clip(array, -FARTHEST, FARTHEST) if self.masks else array


class _Known:
    """A cache of what is known of arrays that are read again: results, weights, and what a loop iterates over."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._bytes = 0

    def of(self, array: np.ndarray) -> _Seen:
        """What is known of an array that nobody writes to."""
        seen = self._seen.pop(id(array), None)
        if seen is None:
            half = round_to_half(array)
            there = int(np.count_nonzero(array))
            lost = there - int(np.count_nonzero(half))
            seen = _Seen(array, half, _largest(array), lost / max(1, there))
            self._bytes += array.nbytes
        self._seen[id(array)] = seen  # the most recently used one at the end
        while self._bytes > MOST_KNOWN_BYTES:
            self._bytes -= self._seen.pop(next(iter(self._seen))).array.nbytes
        return seen

    def bound(self, array: np.ndarray, level: float) -> None:
        """Records that numbers of a magnitude of ``level`` or more mask positions."""
        seen = self.of(array)
        others = _largest(np.where(np.abs(array) < level, array, np.float32(0)))
        bounded = replace(seen, largest=others, masks=True)
        self._seen[id(array)] = replace(bounded, half=bounded.bounded(round_to_half(bounded.bounded(array))))

    def halved(self, value: Any) -> Any:
        """A value as a float16 program holds it."""
        if isinstance(value, list):
            return [self.halved(item) for item in value]
        return self.of(value).half if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def _largest(array: np.ndarray) -> float:
    """The largest magnitude among the finite numbers of an array."""
    low, high = float(array.min(initial=0.0)), float(array.max(initial=0.0))
    if math.isfinite(low) and math.isfinite(high):
        return max(-low, high)
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def floats(values: Sequence[Any]) -> Iterator[np.ndarray]:
    """The float32 arrays among values, and among lists of values."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from floats(value)
        elif isinstance(value, np.ndarray) and value.dtype == np.float32:
            yield value


def halved(value: Any) -> Any:
    """A value as a float16 program holds it."""
    if isinstance(value, list):
        return [halved(item) for item in value]
    is_float = isinstance(value, np.ndarray) and value.dtype == np.float32
    return round_to_half(value) if is_float else value
