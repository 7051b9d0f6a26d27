"""What a graph shows about the values that its inputs take."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.data.columns import Columns, picked_columns, picks_columns
from edgekit.data.magnitudes import Magnitude, magnitudes
from edgekit.data.words import KEEPS_VALUES, Words, word_limits
from edgekit.graph.sizes.size_inputs import inputs_of_sizes
from edgekit.graph.traversal import reached
from edgekit.model import Model

FLAG_LIMIT = 2
"""Integers stay below this number where the graph does not tell their range: most such inputs are masks of 0 and 1."""
DIVISORS = (1, 2, 3)
"""Numbers for inputs that integers are divided by: a division of integers by zero is an error, or ends the process."""
_DIVIDE_BY = {"Div": (1,), "Mod": (1,), "STFT": (1, 3)}
"""By operator, the indices of inputs that integers are divided by; STFT divides the signal into frames."""
_OVERLAP = 3
"""Index of the input of NonMaxSuppression that holds how much boxes may overlap (``iou_threshold``)."""
_KEY_COUNTS = 5
"""Index of the input of GroupQueryAttention that holds how many keys there are (``seqlens_k``)."""
_GREATEST_LIMIT = 2**31
"""Greater limits are ignored: no axis is that long."""


@dataclass(frozen=True)
class Interval:
    """Floating-point numbers from ``low`` to ``high``."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class GivenValues:
    """The only values that an input takes."""

    values: np.ndarray


Limit = int | Columns | tuple[int, ...] | Interval | Magnitude | Words | GivenValues
Limits = Mapping[str, Limit]
"""By input, what values it takes: integers below a number, for all of them or by column; one of several integers;
floating-point numbers of an interval, or that are not negative; texts of some words; or the given values alone."""


def index_limits(model: Model) -> dict[str, Limit]:
    """What values inputs take, by name, for the inputs about which the graph shows something.

    - Token ids stay below the number of rows of the smallest embedding that they are looked up in. Where each column of
      an input has an embedding of its own, each column stays below the number of rows of that embedding.
    - Integers that the model compares with the places along an axis are lengths or places, and stay within the axis.
    - A single integer that the model compares with numbers (a sampling rate, say) is one of these numbers.
    - Numbers that a OneHotEncoder turns into categories are those that all such encoders of the input know, where it
      fails at others.
    - A single floating-point number that bounds a list of numbers (the lowest pitch to look for, say) lies between
      their least and their median if it is the lower bound, between their median and their greatest if the upper one.
    - Divisors of integers are not zero.
    - The overlap that NonMaxSuppression allows is between 0 and 1.
    - Arguments of logarithms and roots are not negative.
    - Texts are words that the graph looks for. Numbers of words are those of the vocabulary and one for other words.
    - An input whose value sets the sizes of tensors inside takes the value of a sample; without one, a floating-point
      input takes ones: it is a scale, or a size.
    - A mask whose ones are summed to the number of keys of an attention holds ones alone, so that no key is missing.
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
    known: dict[str, Limit] = {
        **magnitudes(model, inputs),
        **_switches(model, inputs),
        **_categories(model, inputs),
        **_bounds_of_lists(model, inputs),
        **dict.fromkeys(_overlaps(model, inputs), Interval(0, 1)),
    }
    known |= dict.fromkeys(_full_masks(model, inputs), (1,))
    by_column = {name: _with_columns(below, limits.get(name)) for name, below in columns.items()}
    divisors = dict.fromkeys(_divisors(model, inputs), DIVISORS)
    return {
        **divisors,
        **lengths,
        **known,
        **limits,
        **by_column,
        **numbered,
        **word_limits(model),
        **_values_of_sizes(model),
    }


def with_sampled_integers(limits: Limits, model: Model) -> Limits:
    """The limits of :func:`index_limits`, where integer inputs that a sample has take the sample's values alone.

    Some integers have to fit each other, such as lengths that add up to another length, and only those of samples do.
    """
    return {**limits, **{name: GivenValues(value) for name, value in model.sample_integers.items()}}


def _with_columns(below: Mapping[int, int], of_all: int | None) -> Columns:
    """Limits by column: those of single columns, and ``of_all`` for the other columns, else FLAG_LIMIT."""
    most = math.inf if of_all is None else of_all
    return Columns({place: int(min(limit, most)) for place, limit in below.items()}, of_all or FLAG_LIMIT)


def _values_of_sizes(model: Model) -> dict[str, Limit]:
    """The values of the inputs that set the sizes of tensors inside: those of a sample, else ones if floating-point."""
    found: dict[str, Limit] = {}
    names = inputs_of_sizes(model)
    for spec in model.inputs if names else ():
        shape = tuple(dim for dim in spec.shape or () if isinstance(dim, int))
        value = model.sample_values.get(spec.name)
        if spec.name in names and value is not None and value.shape == shape:
            found[spec.name] = GivenValues(value)
        elif spec.name in names and spec.dtype.startswith("float"):
            found[spec.name] = GivenValues(np.ones(shape))
    return found


def _switches(model: Model, inputs: Collection[ir.Value]) -> dict[str, tuple[int, ...]]:
    """By input of a single integer, the constants that it is compared with, unless all are below FLAG_LIMIT."""
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


def _categories(model: Model, inputs: Collection[ir.Value]) -> dict[str, tuple[int, ...]]:
    """By input, the numbers that all OneHotEncoders of it, or of integers picked from it, know which fail at others."""
    found: dict[str, set[int]] = {}
    for node in model.graph.all_nodes():
        known = set(node.attributes.get_ints("cats_int64s", ())) if node.op_type == "OneHotEncoder" else set()
        if node.domain != "ai.onnx.ml" or not known or node.attributes.get_int("zeros", 1) != 0:
            continue
        for source in _sources(node.inputs[0]):
            tables = [table for table, _ in picked_columns(source, inputs) if table.dtype and table.dtype.is_integer()]
            for value in [source] if source in inputs else tables:
                name = str(value.name)
                found[name] = found.get(name, known) & known
    return {name: tuple(sorted(numbers)) for name, numbers in found.items() if numbers}


def _full_masks(model: Model, inputs: Collection[ir.Value]) -> Iterator[str]:
    """The inputs whose sums give GroupQueryAttention of ``com.microsoft`` the number of keys (``seqlens_k``)."""
    for node in model.graph.all_nodes():
        has_counts = node.op_type == "GroupQueryAttention" and len(node.inputs) > _KEY_COUNTS
        counts = node.inputs[_KEY_COUNTS] if has_counts else None
        for source, _ in _counted(counts, 0) if counts is not None else ():
            summing = source.producer()
            if summing is not None and summing.op_type == "ReduceSum" and not summing.domain:
                yield from (value.name for value in _sources(summing.inputs[0]) if value in inputs and value.name)


def _divisors(model: Model, inputs: Collection[ir.Value]) -> Iterator[str]:
    """The inputs that integers are divided by."""
    for node in model.graph.all_nodes():
        places = _DIVIDE_BY.get(node.op_type, ()) if not node.domain else ()
        for divisor in (node.inputs[place] for place in places if place < len(node.inputs)):
            for source in _sources(divisor) if divisor is not None else ():
                if source in inputs and source.name and source.dtype is not None and source.dtype.is_integer():
                    yield source.name


def _bounds_of_lists(model: Model, inputs: Collection[ir.Value]) -> dict[str, Interval]:
    """By input of a single floating-point number that is compared with a list of constants, its interval."""
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
    """The inputs that hold how much boxes may overlap in NonMaxSuppression."""
    for node in model.graph.all_nodes():
        if node.op_type == "NonMaxSuppression" and not node.domain and len(node.inputs) > _OVERLAP:
            yield from (each.name for each in _sources(node.inputs[_OVERLAP]) if each in inputs and each.name)


def _is_one_float(value: ir.Value) -> bool:
    floating = value.dtype is not None and value.dtype.is_floating_point()
    return floating and value.shape is not None and set(value.shape) <= {1}


def _masks(node: ir.Node) -> Iterator[tuple[ir.Value, int]]:
    """The values that a node compares by order with the places 0, 1, … of an axis, and what each value stays below.

    A value is a length, which may be the size of the axis, if the node asks which places are less than the value, or
    not less. Otherwise the value is a place, which is below the size.
    """
    for places, compared, is_lower, or_equal in _ordered(node):
        count = _places_from_zero(places)
        if count is not None:
            yield compared, count + (is_lower == or_equal)


def _ordered(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value, bool, bool]]:
    """Both operands of a comparison by order, each with its bound, the other operand; nothing for another node.

    Yields:
        Operand, bound, whether it is a lower bound, and whether the operand may equal it.
    """
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
"""Operators that compare by order: whether the second input is a lower bound of the first, and whether the first may
equal it."""


_ARITHMETIC: Mapping[str, Callable[[float, np.ndarray], float]] = {
    "Add": lambda limit, numbers: limit - float(numbers.max()),
    "Sub": lambda limit, numbers: limit + float(numbers.min()),
    "Mul": lambda limit, numbers: limit / float(numbers.max()) if numbers.min() > 0 else math.inf,
    "Div": lambda limit, numbers: limit * float(numbers.min()) if numbers.min() > 0 else math.inf,
}
"""By operator with one constant operand: what the other operand stays below, from the limit of all results."""


def _counted(value: ir.Value, limit: float) -> Iterator[tuple[ir.Value, int]]:
    """The values that ``value`` is computed from with constants (a frame every 160 samples, say), and their limits."""
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
    """How many numbers the value holds if these are 0, 1, 2, … in any shape and type.

    None if the value holds other numbers or fewer than two, or if their count is not known.
    """
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
"""Operators with an input that holds places in the first input, or lengths of it: the position of that input, and the
axis that is counted along where the node has no attribute for it. None: several axes, from ``batch_dims`` on."""
_TAKES_SOME = frozenset({"Compress", "Gather", "GatherElements", "GatherND"})
"""Operators that take some of the values of their first input: rows of one input hold both ends of a graph's edges."""
_COUNTS = ("ReverseSequence", "LSTM", "GRU", "RNN")
"""Operators of :data:`_PLACES` whose input holds lengths, which may be as large as the axis."""


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

    Operators that pick columns are not followed: each column may have a limit of its own.
    """

    def taken_from(current: ir.Value) -> Iterable[ir.Value | None]:
        producer = current.producer()
        if producer is None or producer.domain:
            return ()
        if producer.op_type == "Concat":
            return producer.inputs
        if producer.op_type == "Where":
            return producer.inputs[1:]
        sorts = producer.op_type == "TopK" and current is producer.outputs[0]  # PyTorch packs the longest first
        takes = sorts or (producer.op_type in KEEPS_VALUES | _TAKES_SOME and not picks_columns(producer))
        return producer.inputs[:1] if takes else ()

    return reached([value], taken_from)
