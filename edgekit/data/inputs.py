"""Inputs to compare models on: drawn from a seed, within the range that the graph can take."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.data.words import ANY_WORDS, KEEPS_VALUES, Words, word_limits
from edgekit.errors import InputError
from edgekit.model import Arrays, Model, ValueSpec

FLAG_LIMIT = 2
"""Below what integers stay where the graph does not tell: most such inputs are masks of zeros and ones."""

MOST_ELEMENTS = 1 << 27
"""An input of more elements (half a gigabyte in single precision) is refused before it is allocated."""


@dataclass(frozen=True)
class Interval:
    """Floating-point numbers from ``low`` to ``high``."""

    low: float
    high: float


Limit = int | tuple[int, ...] | Interval | Words
Limits = Mapping[str, Limit]
"""By input: what its numbers stay below, the numbers to choose from, those between two, or the words of its texts."""


def seeded_inputs(specs: Sequence[ValueSpec], seed: int, limits: Limits | None = None) -> Arrays:
    """Inputs that are the same for the same seed, on every machine.

    Floating-point inputs are standard normal, or uniform in the interval that is their limit; bytes take their whole
    range; other integers, and inputs that have a limit, are drawn from 0 up to below it, or from those that it lists;
    booleans are fair coins. Texts are words that the graph looks for, or lines of them where it looks into a text. An
    input's values depend on its own name, dtype and shape alone, so another input that comes or goes changes nothing.

    Args:
        specs: The inputs, with static shapes.
        seed: What to start the random numbers from.
        limits: What :func:`index_limits` found in the graph.

    Raises:
        InputError: A shape is dynamic, or nothing can be drawn for an element type.
    """
    return {spec.name: _draw(spec, seed, (limits or {}).get(spec.name)) for spec in specs}


def _draw(spec: ValueSpec, seed: int, limit: Limit | None) -> np.ndarray:
    if spec.shape is None or not spec.is_static:
        raise InputError(
            "no input can be drawn while its shape is dynamic", subject=spec, hint="fix it with --dim or --shape"
        )
    shape = tuple(dim for dim in spec.shape if isinstance(dim, int))
    if any(dim < 0 for dim in shape) or math.prod(shape) > MOST_ELEMENTS:
        raise InputError(
            "no input of that size can be drawn", subject=spec, expected=f"{MOST_ELEMENTS} elements at most"
        )
    rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    if spec.dtype == "str":
        words = limit if isinstance(limit, Words) else Words(((None, ANY_WORDS),))
        return words.draw(rng, shape)
    try:
        dtype = np.dtype(spec.dtype)  # bfloat16, int4 and the like are known since onnx_ir imports ml_dtypes
    except TypeError:  # a sequence, or a type that the model does not tell
        dtype = np.dtype(str)
    if dtype == np.dtype(str):
        raise InputError("nothing can be drawn for this element type", subject=spec)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if isinstance(limit, Interval):
        return rng.uniform(limit.low, limit.high, shape).astype(dtype)
    if isinstance(limit, tuple):
        return rng.choice(limit, shape).astype(dtype)
    if isinstance(limit, int):
        return rng.integers(0, limit, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max + 1) if dtype.itemsize == 1 else (0, FLAG_LIMIT)
        return rng.integers(low, high, shape).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def index_limits(model: Model) -> dict[str, Limit]:
    """What the graph tells of the values that its inputs take, for the inputs of which it tells something.

    An input that holds token ids must stay below the number of rows of the smallest embedding that it feeds. Integers
    that places along an axis are compared with are lengths or places themselves, and stay within the axis. A single
    integer that the model compares with numbers (a sampling rate, say) is one of these. A single floating-point number
    that bounds a list of numbers (the lowest pitch to look for, say) is between the least and the middle one where it
    is their lower bound, between the middle and the greatest where it is the upper one. Texts are words that it looks
    for.
    """
    limits: dict[str, int] = {}
    lengths: dict[str, int] = {}
    inputs = {value for value in model.graph.inputs if value.name not in model.graph.initializers}
    for node in model.graph.all_nodes():
        for indices, size in _lookups(node):
            for source in _sources(indices):
                if source in inputs and source.name:
                    limits[source.name] = min(size, limits.get(source.name, size))
        for counts, size in _masks(node):
            for source in _sources(counts):
                if source in inputs and source.name and source.dtype is not None and source.dtype.is_integer():
                    lengths[source.name] = min(size, lengths.get(source.name, size))
    return {**lengths, **_switches(model, inputs), **_bounds_of_lists(model, inputs), **limits, **word_limits(model)}


def _switches(model: Model, inputs: Collection[ir.Value]) -> dict[str, tuple[int, ...]]:
    """The numbers that inputs of a single integer are compared with, beyond those that flags have."""
    found: dict[str, set[int]] = {}
    for node in model.graph.all_nodes():
        if node.op_type != "Equal" or node.domain:
            continue
        for compared, number in (node.inputs, reversed(node.inputs)):
            constant = ir.convenience.get_const_tensor(number) if number is not None else None
            if constant is None or constant.size != 1 or not constant.dtype.is_integer():
                continue
            for source in _sources(compared):
                if source in inputs and source.name and source.shape is not None and set(source.shape) <= {1}:
                    found.setdefault(source.name, set()).add(int(constant.numpy().item()))
    return {name: tuple(sorted(numbers)) for name, numbers in found.items() if max(numbers) >= FLAG_LIMIT}


def _bounds_of_lists(model: Model, inputs: Collection[ir.Value]) -> dict[str, Interval]:
    """The numbers between which single floating-point inputs are that a list of constants is compared with."""
    sides: dict[str, list[Interval]] = {}
    for node in model.graph.all_nodes():
        if node.op_type not in _ORDERS or node.domain:
            continue
        first, second = node.inputs
        for bound, listed, is_lower in (
            (second, first, _ORDERS[node.op_type]),
            (first, second, not _ORDERS[node.op_type]),
        ):
            constant = ir.convenience.get_const_tensor(listed) if listed is not None else None
            if constant is None or constant.size < 2 or not constant.dtype.is_floating_point():
                continue
            numbers = constant.numpy().astype(np.float64)
            if not np.isfinite(numbers).all():
                continue
            middle = float(np.median(numbers))
            interval = Interval(float(numbers.min()), middle) if is_lower else Interval(middle, float(numbers.max()))
            for source in _sources(bound):
                if source in inputs and source.name and _is_one_float(source):
                    sides.setdefault(source.name, []).append(interval)
    return {
        name: Interval(min(side.low for side in intervals), max(side.high for side in intervals))
        for name, intervals in sides.items()
    }


_ORDERS = {"Greater": True, "GreaterOrEqual": True, "Less": False, "LessOrEqual": False}
"""Operators that compare by order; whether the second input is the lower bound of the first."""


def _is_one_float(value: ir.Value) -> bool:
    floating = value.dtype is not None and value.dtype.is_floating_point()
    return floating and value.shape is not None and set(value.shape) <= {1}


_SWAPPED = {
    "Less": "Greater",
    "Greater": "Less",
    "LessOrEqual": "GreaterOrEqual",
    "GreaterOrEqual": "LessOrEqual",
}
_OF_LENGTHS = {"Less", "GreaterOrEqual"}
"""How places are compared with a length: those within it, or those behind it. Else it is with a place."""


def _masks(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """What places along an axis are compared with by order, and what it stays below."""
    if node.domain or node.op_type not in _SWAPPED:
        return
    first, second = node.inputs
    for places, compared, order in ((first, second, node.op_type), (second, first, _SWAPPED[node.op_type])):
        count = None if places is None or compared is None else _places_from_zero(places)
        if compared is not None and count is not None:
            yield compared, count + (order in _OF_LENGTHS)


def _places_from_zero(value: ir.Value) -> int | None:
    """How many whole numbers from 0 the value is, in some shape and type; None where it is something else."""
    for source in _sources(value):
        constant = ir.convenience.get_const_tensor(source)
        if constant is not None:
            numbers = constant.numpy().reshape(-1)
            return len(numbers) if len(numbers) > 1 and np.array_equal(numbers, np.arange(len(numbers))) else None
        producer = source.producer()
        if producer is None or producer.op_type != "Range" or producer.domain:
            continue
        start, _, step = (ir.convenience.get_const_tensor(given) if given else None for given in producer.inputs)
        count = None if source.shape is None else source.shape[0]
        if start is None or step is None or start.numpy().item() != 0 or step.numpy().item() != 1:
            return None
        return count if isinstance(count, int) and count > 1 else None
    return None


def _lookups(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """The indices or lengths that the node reads, and what they stay below."""
    if node.domain or len(node.inputs) < 2:
        return
    first, second = node.inputs[:2]
    if node.op_type in _PLACES:
        yield from _places(node)
    if first is None or second is None:
        return
    if node.op_type == "OneHot":
        depth = ir.convenience.get_const_tensor(second)
        if depth is not None:
            yield first, int(depth.numpy().item())
    elif node.op_type == "Equal":  # a one-hot encoding written out: every id compared with every entry
        for indices, entries in ((first, second), (second, first)):
            constant = ir.convenience.get_const_tensor(entries)
            if constant is not None and constant.dtype.is_integer() and constant.size > 1:
                yield indices, int(constant.numpy().max()) + 1


_PLACES = {
    "Gather": (1, 0),
    "GatherElements": (1, 0),
    "ScatterElements": (1, 0),
    "GatherND": (1, None),
    "ScatterND": (1, None),
    "RoiAlign": (2, 0),
    "TensorScatter": (2, -2),
    "ReverseSequence": (1, 0),
    "LSTM": (4, 0),
    "GRU": (4, 0),
    "RNN": (4, 0),
}
"""Operators with an input of places in, or lengths of, the first one: its position, and the axis that it goes along
where the node has no attribute for that; None: along the first ones."""
_COUNTS = ("ReverseSequence", "LSTM", "GRU", "RNN")
"""Of these it is lengths, which may be the whole axis."""


def _places(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    position, axis = _PLACES[node.op_type]
    read = node.inputs[0]
    places = node.inputs[position] if position < len(node.inputs) else None
    if read is None or places is None or read.shape is None:
        return
    if axis is None:
        count = None if places.shape is None else places.shape[-1]
        skipped = node.attributes.get_int("batch_dims", 0)
        along = list(range(skipped, skipped + count)) if isinstance(count, int) else []
    else:
        along = [node.attributes.get_int("time_axis" if node.op_type == "ReverseSequence" else "axis", axis)]
    rank = read.shape.rank()
    sizes = [read.shape[place] for place in along if -rank <= place < rank]
    known = [size for size in sizes if isinstance(size, int)]
    if not known or len(known) < len(along):
        return
    least = min(known)
    if node.op_type == "TensorScatter":
        update = node.inputs[1]
        written = update.shape[along[0]] if update is not None and update.shape is not None else None
        if not isinstance(written, int):
            return
        least -= written - 1
    yield places, least + (node.op_type in _COUNTS)


def _sources(value: ir.Value | None) -> Iterator[ir.Value]:
    """The values that ``value`` takes its numbers from, through operators that only move or cast them."""
    seen: set[ir.Value] = set()
    open_values = [value]
    while open_values:
        current = open_values.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        yield current
        producer = current.producer()
        if producer is not None and not producer.domain and producer.op_type in KEEPS_VALUES:
            open_values.extend(producer.inputs if producer.op_type == "Concat" else producer.inputs[:1])
