"""What a graph tells of the values that its inputs take."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.data.columns import Columns, picked_columns, picks_columns
from edgekit.data.magnitudes import Magnitude, magnitudes
from edgekit.data.words import KEEPS_VALUES, Words, word_limits
from edgekit.graph.sizes.size_inputs import inputs_of_sizes
from edgekit.model import Model

FLAG_LIMIT = 2
"""Below what integers stay where the graph does not tell: most such inputs are masks of zeros and ones."""
DIVISORS = (1, 2, 3)
"""Numbers for inputs that integers are divided by: runtimes refuse to divide integers by zero, or stop."""
_OVERLAP = 3
"""Which input of NonMaxSuppression tells by how much boxes may overlap."""
_KEY_COUNTS = 5
"""Which input of grouped attention tells how many keys there are."""
_GREATEST_LIMIT = 2**31
"""A limit beyond that tells nothing: no axis is as long."""


@dataclass(frozen=True)
class Interval:
    """Floating-point numbers from ``low`` to ``high``."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Given:
    """These numbers alone."""

    values: np.ndarray


Limit = int | Columns | tuple[int, ...] | Interval | Magnitude | Words | Given
Limits = Mapping[str, Limit]
"""By input: what its numbers stay below, all of them or by column, the numbers to choose from, those between two, the
words of its texts, the only numbers that it takes, or that none is negative."""


def index_limits(model: Model) -> dict[str, Limit]:
    """What the graph tells of the values that its inputs take, for the inputs of which it tells something.

    An input that holds token ids must stay below the number of rows of the smallest embedding that it feeds; where its
    columns are picked for embeddings of their own, each column below the rows of its own. Integers that places along an
    axis are compared with are lengths or places themselves, and stay within the axis. A single integer that the model
    compares with numbers (a sampling rate, say) is one of these. A single floating-point number that bounds a list of
    numbers (the lowest pitch to look for, say) is between the least and the middle one where it is their lower bound,
    between the middle and the greatest where it is the upper one. What integers are divided by is not zero. By how
    much boxes may overlap is a share. What a logarithm or a root reads is never negative. Texts are words that it
    looks for, and numbers of words those of the vocabulary and the one for any other word. An input by whose value
    tensors inside get their sizes has that of a sample, else ones if it is floating-point: that is a scale, or a
    size. A mask whose ones are how many keys attention has is full: no fewer are there.
    """
    limits: dict[str, int] = {}
    columns: dict[str, dict[int, int]] = {}
    lengths: dict[str, int] = {}
    inputs = {value for value in model.graph.inputs if value.name not in model.graph.initializers}
    for node in model.graph.all_nodes():
        for indices, size in _lookups(node):
            for source, limit in _counted(indices, size):
                if source in inputs and source.name and limit > 0:
                    limits[source.name] = min(limit, limits.get(source.name, limit))
                for table, place in picked_columns(source, inputs) if limit > 0 else ():
                    of_table = columns.setdefault(str(table.name), {})
                    of_table[place] = min(limit, of_table.get(place, limit))
        for counts, size in _masks(node):
            for source, limit in _counted(counts, size):
                is_integer = source.dtype is not None and source.dtype.is_integer()
                if source in inputs and source.name and is_integer and limit > 1:
                    lengths[source.name] = min(limit, lengths.get(source.name, limit))
    numbered: dict[str, Limit] = {name: len(words) + 1 for name, words in model.vocabularies.items()}
    told: dict[str, Limit] = {
        **magnitudes(model, inputs),
        **_switches(model, inputs),
        **_bounds_of_lists(model, inputs),
        **dict.fromkeys(_overlaps(model, inputs), Interval(0, 1)),
    }
    told |= dict.fromkeys(_full_masks(model, inputs), (1,))
    by_column = {name: _with_columns(below, limits.get(name)) for name, below in columns.items()}
    divisors = dict.fromkeys(_divisors(model, inputs), DIVISORS)
    return {
        **divisors,
        **lengths,
        **told,
        **limits,
        **by_column,
        **numbered,
        **word_limits(model),
        **_values_of_sizes(model),
    }


def with_sampled_integers(limits: Limits, model: Model) -> Limits:
    """The limits of :func:`index_limits`, but for integers that a sample has: they are those.

    Lengths that add up to another length, and the places within it, fit each other in samples alone.
    """
    return {**limits, **{name: Given(value) for name, value in model.sample_integers.items()}}


def _with_columns(below: Mapping[int, int], of_all: int | None) -> Columns:
    """The limits of some columns, and of the others."""
    most = math.inf if of_all is None else of_all
    return Columns({place: int(min(limit, most)) for place, limit in below.items()}, of_all or FLAG_LIMIT)


def _values_of_sizes(model: Model) -> dict[str, Limit]:
    """The numbers of the inputs by whose values tensors inside get their sizes, as far as there are some."""
    found: dict[str, Limit] = {}
    names = inputs_of_sizes(model)
    for spec in model.inputs if names else ():
        shape = tuple(dim for dim in spec.shape or () if isinstance(dim, int))
        value = model.sample_values.get(spec.name)
        if spec.name in names and value is not None and value.shape == shape:
            found[spec.name] = Given(value)
        elif spec.name in names and spec.dtype.startswith("float"):
            found[spec.name] = Given(np.ones(shape))
    return found


def _switches(model: Model, inputs: Collection[ir.Value]) -> dict[str, tuple[int, ...]]:
    """The numbers that inputs of a single integer are compared with, beyond those that flags have."""
    found: dict[str, set[int]] = {}
    for node in model.graph.all_nodes():
        if node.op_type != "Equal" or node.domain:
            continue
        for compared, other in (node.inputs, reversed(node.inputs)):
            constant = ir.convenience.get_const_tensor(other) if other is not None else None
            if constant is None or constant.size != 1 or not constant.dtype.is_integer():
                continue
            number = int(constant.numpy().item())
            if abs(number) > _GREATEST_LIMIT:
                continue
            for source in _sources(compared):
                if source in inputs and source.name and source.shape is not None and set(source.shape) <= {1}:
                    found.setdefault(source.name, set()).add(number)
    return {name: tuple(sorted(numbers)) for name, numbers in found.items() if max(numbers) >= FLAG_LIMIT}


def _full_masks(model: Model, inputs: Collection[ir.Value]) -> Iterator[str]:
    """The inputs whose sums tell GroupQueryAttention of ``com.microsoft`` how many keys there are (``seqlens_k``)."""
    for node in model.graph.all_nodes():
        is_told = node.op_type == "GroupQueryAttention" and len(node.inputs) > _KEY_COUNTS
        counts = node.inputs[_KEY_COUNTS] if is_told else None
        for source, _ in _counted(counts, 0) if counts is not None else ():
            summing = source.producer()
            if summing is not None and summing.op_type == "ReduceSum" and not summing.domain:
                yield from (value.name for value in _sources(summing.inputs[0]) if value in inputs and value.name)


def _divisors(model: Model, inputs: Collection[ir.Value]) -> Iterator[str]:
    """The inputs that integers are divided by."""
    for node in model.graph.all_nodes():
        if node.op_type not in ("Div", "Mod") or node.domain:
            continue
        for source in _sources(node.inputs[1]):
            if source in inputs and source.name and source.dtype is not None and source.dtype.is_integer():
                yield source.name


def _bounds_of_lists(model: Model, inputs: Collection[ir.Value]) -> dict[str, Interval]:
    """The numbers between which single floating-point inputs are that a list of constants is compared with."""
    sides: dict[str, list[Interval]] = {}
    for node in model.graph.all_nodes():
        for listed, bound, is_lower, _ in _ordered(node):
            constant = ir.convenience.get_const_tensor(listed)
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


def _overlaps(model: Model, inputs: Collection[ir.Value]) -> Iterator[str]:
    """The inputs that tell NonMaxSuppression by how much boxes may overlap."""
    for node in model.graph.all_nodes():
        if node.op_type == "NonMaxSuppression" and not node.domain and len(node.inputs) > _OVERLAP:
            yield from (each.name for each in _sources(node.inputs[_OVERLAP]) if each in inputs and each.name)


def _is_one_float(value: ir.Value) -> bool:
    floating = value.dtype is not None and value.dtype.is_floating_point()
    return floating and value.shape is not None and set(value.shape) <= {1}


def _masks(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """What places along an axis are compared with by order, and what it stays below.

    It is a length where the places are those within it or those behind it, else a place.
    """
    for places, compared, is_lower, or_equal in _ordered(node):
        count = _places_from_zero(places)
        if count is not None:
            yield compared, count + (is_lower == or_equal)


def _ordered(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value, bool, bool]]:
    """For a comparison by order, each operand with the other one: whether that is its lower bound, or may equal it."""
    first, second = (*node.inputs, None, None)[:2]
    if node.domain or node.op_type not in _ORDERS or first is None or second is None:
        return
    is_lower, or_equal = _ORDERS[node.op_type]
    yield first, second, is_lower, or_equal
    yield second, first, not is_lower, or_equal


_ORDERS = {
    "Greater": (True, False),
    "GreaterOrEqual": (True, True),
    "Less": (False, False),
    "LessOrEqual": (False, True),
}
"""Operators that compare by order: whether the second input is the lower bound of the first, and may equal it."""


_ARITHMETIC: Mapping[str, Callable[[float, np.ndarray], float]] = {
    "Add": lambda limit, numbers: limit - float(numbers.max()),
    "Sub": lambda limit, numbers: limit + float(numbers.min()),
    "Mul": lambda limit, numbers: limit / float(numbers.max()) if numbers.min() > 0 else math.inf,
    "Div": lambda limit, numbers: limit * float(numbers.min()) if numbers.min() > 0 else math.inf,
}
"""What the other operand of constants stays below, by what all results do."""


def _counted(value: ir.Value, limit: float) -> Iterator[tuple[ir.Value, int]]:
    """The values that ``value`` is counted from by constants, one frame every 160 samples say, and their limits."""
    open_values = [(value, limit)] if abs(limit) <= _GREATEST_LIMIT else []
    seen: set[ir.Value] = set()
    while open_values:
        current, limit = open_values.pop()
        for source in _sources(current):
            if source in seen:
                continue
            seen.add(source)
            yield source, math.ceil(limit)
            producer = source.producer()
            inverse = None if producer is None or producer.domain else _ARITHMETIC.get(producer.op_type)
            if producer is None or inverse is None:
                continue
            first, second = producer.inputs
            for operand, other in ((first, second), (second, first)):
                number = ir.convenience.get_const_tensor(other) if other is not None else None
                is_left = operand is first or producer.op_type in ("Add", "Mul")
                if operand is None or number is None or not number.size or not is_left:
                    continue
                of_operand = inverse(limit, number.numpy())
                if abs(of_operand) <= _GREATEST_LIMIT:
                    open_values.append((operand, of_operand))


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
        count = source.shape[0] if source.shape is not None and source.shape.rank() else None
        if start is None or step is None or not (np.all(start.numpy() == 0) and np.all(step.numpy() == 1)):
            return None
        return count if isinstance(count, int) and count > 1 else None
    return None


def _lookups(node: ir.Node) -> Iterator[tuple[ir.Value, float]]:
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
        if depth is not None and depth.size == 1:
            yield first, float(depth.numpy().item())
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
_TAKES_SOME = frozenset({"Compress", "Gather", "GatherElements", "GatherND"})
"""Operators that take some of the values of their first input: both ends of a graph's edges, say, are rows of one."""
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
    """The values that ``value`` takes its numbers from, through operators that only move, sort, choose or cast them.

    Not through one that picks columns: each column may have a limit of its own.
    """
    seen: set[ir.Value] = set()
    open_values = [value]
    while open_values:
        current = open_values.pop()
        if current is None or current in seen:
            continue
        seen.add(current)
        yield current
        producer = current.producer()
        if producer is None or producer.domain:
            continue
        sorts = producer.op_type == "TopK" and current is producer.outputs[0]  # PyTorch packs the longest first
        if producer.op_type == "Concat":
            open_values.extend(producer.inputs)
        elif producer.op_type == "Where":
            open_values.extend(producer.inputs[1:])
        elif sorts or (producer.op_type in KEEPS_VALUES | _TAKES_SOME and not picks_columns(producer)):
            open_values.extend(producer.inputs[:1])
