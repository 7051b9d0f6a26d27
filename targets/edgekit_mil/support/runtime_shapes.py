"""Tensors whose sizes are known only at run time: shapes as vectors that the program computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sympy import Expr

from edgekit_mil.core.mil import Symbol, Var, get_new_symbol, mb, types
from edgekit_mil.core.values import Unsupported, Value


def reshape_target(source: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """Returns the shape that a tensor with open sizes is reshaped to, with -1 for a size known only at run time.

    Args:
        source: The tensor's sizes.
        sizes: ONNX's target shape: 0 keeps a size, -1 takes the remaining elements; symbols are open sizes.

    Returns:
        Numbers, with -1 for an open size, if at most one size is open; else numbers, symbols and at most one -1.
    """
    kept = [source[place] if is_number(size) and size == 0 else size for place, size in enumerate(sizes)]
    filled = with_rest(source, kept)
    kept = [rest if is_number(rest) else size for rest, size in zip(filled, kept, strict=True)]
    target = [int(size) if is_number(size) else -1 for size in kept]
    return target if target.count(-1) < 2 else kept


def with_rest(source: Sequence[Any], target: Sequence[Any]) -> list[Any]:
    """Replaces -1 in a target by the size for the remaining elements; open sizes on both sides cancel out."""
    total, known = math.prod(source), math.prod(size for size in target if not is_number(size) or size > 0)
    rest = total // known if is_number(total) and is_number(known) else total / known
    if not is_number(rest) and rest.is_Integer:
        rest = int(rest)
    return [rest if is_number(size) and size == -1 else size for size in target]


def vector_of(target: Sequence[Any], x: Value, shape: Value) -> Var:
    """Returns a target of several open sizes as a vector that the program computes.

    Args:
        target: Numbers and symbols.
        x: The tensor to reshape; an open size of it gives the value of the same symbol in the target.
        shape: ONNX's target shape, which gives the values of other symbols.
    """
    own = mb.shape(x=x.var)
    entries = []
    for place, size in enumerate(target):
        if is_number(size):
            entries.append(np.array([size], np.int32))
            continue
        vector, index = (own, x.shape.index(size)) if size in x.shape else (shape.var, place)
        entries.append(mb.slice_by_index(x=vector, begin=[index], end=[index + 1]))
    return mb.concat(values=entries, axis=0)


def reshaped(x: Value, shape: Value) -> Var:
    """Reshapes a tensor to a shape that the program computes: 0 keeps a size, -1 takes the remaining elements."""
    rank = shape.static_shape[0]
    var, wanted = x.var, shape.var
    own = mb.shape(x=var)
    if x.rank > rank:
        own = mb.slice_by_index(x=own, begin=[0], end=[rank])
    elif x.rank < rank:
        own = mb.concat(values=[own, np.ones(rank - x.rank, np.int32)], axis=0)
    wanted = mb.select(cond=mb.equal(x=wanted, y=0), a=own, b=wanted)
    is_rest = mb.equal(x=wanted, y=-1)
    others = mb.reduce_prod(x=mb.select(cond=is_rest, a=np.ones(rank, np.int32), b=wanted), axes=[0], keep_dims=True)
    total = mb.reduce_prod(x=mb.shape(x=var), axes=[0], keep_dims=True)
    rest = mb.floor_div(x=total, y=mb.maximum(x=others, y=1))
    sizes = mb.select(cond=is_rest, a=mb.add(x=rest, y=np.zeros(rank, np.int32)), b=wanted)
    return mb.reshape(x=var, shape=sizes)


def zeros(sizes: Sequence[Any]) -> Any:
    """A tensor of zeros; open sizes are vectors of one element that the program computes."""
    if all(map(is_number, sizes)):
        return np.zeros([int(size) for size in sizes], np.float32)
    return mb.fill(shape=vector(sizes), value=np.float32(0))


def vector(sizes: Sequence[Any]) -> Any:
    """Sizes as one vector; open ones are vectors of one element that the program computes."""
    if all(map(is_number, sizes)):
        return np.array(sizes, np.int32)
    if len(sizes) == 1:
        return sizes[0]
    return mb.concat(values=[np.array([size], np.int32) if is_number(size) else size for size in sizes], axis=0)


def of_sizes(var: Var, sizes: Sequence[Any]) -> Var:
    """Sets the sizes of a new tensor: the builder does not know that its open sizes are those of other tensors."""
    if all(is_number(size) or isinstance(size, Expr) for size in sizes):
        var._sym_type = types.tensor(var.dtype, tuple(int(size) if is_number(size) else size for size in sizes))
    return var


def size_of(var: Var, axis: int) -> Any:
    """The size of an axis: a number, or if it is open a vector of one element that the program computes."""
    size = var.shape[axis]
    return int(size) if is_number(size) else mb.slice_by_index(x=mb.shape(x=var), begin=[axis], end=[axis + 1])


def counted(count: Any) -> Var | np.ndarray:
    """The numbers from 0 to ``count`` - 1, for a size in the form of :func:`size_of`."""
    if is_number(count):
        return np.arange(count, dtype=np.int32)
    return mb.range_1d(start=np.int32(0), end=as_number(count), step=np.int32(1))


def as_number(size: Any) -> Any:
    """A size in the form of :func:`size_of` as a scalar."""
    return np.int32(size) if is_number(size) else mb.squeeze(x=size, axes=[0])


_bounds: dict[Any, int] = {}
"""The largest value of a size known only at run time, by its symbol; every symbol is made once in a process."""
_of_inputs: set[Any] = set()
"""Symbols of the sizes of inputs, which are at least 1."""


def positions_of(condition: Var) -> Var:
    """Coordinates [K, rank] of the nonzero elements of an int32 or float tensor; K is at most its element count."""
    places = mb.non_zero(x=condition)
    note_limit(places.shape[0], *condition.shape)
    return places


def note_input_size(symbol: Any, greatest: int) -> None:
    """Records a size that an input may have, from 1 to ``greatest``."""
    _of_inputs.add(symbol)
    _bounds[symbol] = greatest


def may_be_empty(size: Any) -> bool:
    """Whether a size may be 0: it depends on computed values, not only on the sizes of inputs."""
    return not is_number(size) and not size.free_symbols <= _of_inputs


_quotients: dict[tuple[Any, int], Any] = {}
"""Symbols for open sizes divided by numbers, rounded down, if there may be a remainder; by size and number."""


def quotient(size: Any, divisor: int) -> Any:
    """A size divided by a number, rounded down: an expression of its symbols, or a symbol if there may be a remainder.

    Args:
        size: A number, at least 0, or an expression of symbols.
        divisor: At least 1.
    """
    if is_number(size):
        return int(size) // int(divisor)
    whole = size / int(divisor)
    if all(factor.is_Integer for factor in whole.as_coefficients_dict().values()):
        return whole
    key = (size, int(divisor))
    if key not in _quotients:
        _quotients[key] = get_new_symbol()
        with suppress(Unsupported):
            _bounds[_quotients[key]] = most_of(size) // int(divisor)
    return _quotients[key]


def has_quotients(sizes: Sequence[Any]) -> bool:
    """Whether a size contains a symbol that :func:`quotient` made for a division with a remainder."""
    made = set(_quotients.values())
    return any(not is_number(size) and bool(size.free_symbols & made) for size in sizes)


def note_limit(size: Any, *factors: Any) -> None:
    """Records that a size known only at run time is at most the product of ``factors``, if their limits are known.

    If several limits are recorded for a size, the least one counts.
    """
    if is_number(size):
        return
    with suppress(Unsupported):
        limit = math.prod(map(most_of, factors))
        _bounds[size] = min(limit, _bounds.get(size, limit))


def note_greater_limit(size: Any, *alternatives: Any) -> None:
    """Records that a size known only at run time is one of ``alternatives``, if their limits are known."""
    if is_number(size) or not alternatives:
        return
    with suppress(Unsupported):
        _bounds[size] = max(map(most_of, alternatives))


def most_of(size: Any) -> int:
    """The largest value that a size can take; for a sum, the sum of the largest values of its positive terms.

    Raises:
        Unsupported: No limit of the size is known.
    """
    if is_number(size):
        return int(size)
    if size in _bounds:
        return _bounds[size]
    parts = {} if isinstance(size, Symbol) else size.as_coefficients_dict()
    if not parts or size in parts or any(factor != int(factor) for factor in parts.values()):
        raise Unsupported("works on a number of elements that only a run tells, and that has no known limit")
    # Subtracted sizes are at least 0.
    return sum(int(factor) * (1 if part == 1 else most_of(part)) for part, factor in parts.items() if factor > 0)


HANDS_ON = frozenset({"cast", "expand_dims", "identity", "reshape", "squeeze"})
"""Operations whose result has the values of their ``x``."""


def most_computed(var: Var) -> int | None:
    """An upper bound of an integer tensor; None if it is no constant and the program takes no minimum with one."""
    if var.val is not None:
        numbers = np.ravel(var.val).tolist()  # sizes taken from a shape with open ones have no numeric type
        return int(max(numbers)) if numbers and all(map(math.isfinite, numbers)) else None
    operation = var.op
    if operation is None:
        return None
    if operation.op_type in HANDS_ON:
        return most_computed(operation.x)
    compared: Sequence[Var] = ()
    if operation.op_type == "minimum":
        compared = (operation.x, operation.y)
    elif operation.op_type == "reduce_min" and operation.x.rank == 1:
        parts = operation.x.op
        compared = parts.values if parts is not None and parts.op_type == "concat" else ()
    limits = [limit for limit in map(most_computed, compared) if limit is not None]
    return min(limits, default=None)


def is_number(size: Any) -> bool:
    """Whether a size is a number, not a symbol."""
    return isinstance(size, int | np.integer)


def or_rest(size: Any) -> int:
    """A size as an entry of a target of ``reshape``: an open one takes the remaining elements; one at most may."""
    return int(size) if is_number(size) else -1


def expanded(x: Value, shape: Value) -> Var:
    """A tensor broadcast to a shape that the program computes.

    Sizes of 1 are repeated as often as the shape says; others stay as they are, since a shape that broadcasts with
    them says the same, or 1.
    """
    rank = shape.static_shape[0]
    lacking = rank - x.rank
    if lacking < 0:
        raise Unsupported("broadcasts to a shape of lower rank that is computed at run time")
    var = mb.expand_dims(x=x.var, axes=list(range(lacking))) if lacking else x.var
    counts = mb.select(cond=mb.equal(x=mb.shape(x=var), y=1), a=shape.var, b=np.ones(rank, np.int32))
    return mb.tile(x=var, reps=counts)


def index_tuples(places: Var, axis: int) -> Var:
    """Coordinates (*shape, rank) of every element of a tensor of indices, which are the coordinates along the axis."""
    rank = places.rank
    shape = mb.shape(x=places)
    nothing = mb.mul(x=places, y=0)
    columns = []
    for dim in range(rank):
        if dim == axis:
            columns.append(places)
            continue
        size = mb.slice_by_index(x=shape, begin=[dim], end=[dim + 1], squeeze_mask=[True])
        steps = mb.range_1d(start=np.int32(0), end=size, step=np.int32(1))
        along = mb.expand_dims(x=steps, axes=[other for other in range(rank) if other != dim]) if rank > 1 else steps
        columns.append(mb.add(x=nothing, y=along))
    return mb.stack(values=columns, axis=rank)
