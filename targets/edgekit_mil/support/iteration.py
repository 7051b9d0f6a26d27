"""Repetition: unrolled where the number of turns is known and small, else a loop of the program.

Both ways call the same step function: once per turn with a constant turn number, or once with a variable one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb, types
from edgekit_mil.core.values import INT32_RANGE, Infeasible, TensorList, Unsupported, Value, computed, constant
from edgekit_mil.support.movement import reshaped
from edgekit_mil.support.runtime_shapes import is_number, of_sizes, size_of, vector

MOST_UNROLLED_NODES = 4096
"""The most ONNX nodes that an unrolled loop may have: turns times nodes of the body."""

NO_BOUND = INT32_RANGE[1]
"""A limit of this many turns counts as none: TensorFlow's exporter writes it for a loop without a limit."""

Step = Callable[[Value, Value, Sequence[Value]], tuple[Value, list[Value], list[Value]]]
"""Turn number, condition and states in; condition for the next turn, states and scan outputs of this turn out."""


@dataclass(frozen=True)
class Repetition:
    """A loop: its body as a step function, its limit and its initial values."""

    step: Step
    count: Value | None
    """The largest number of turns; None if there is no limit."""
    condition: Value
    """Whether there is a first turn."""
    initial: Sequence[Value]
    """States before the first turn."""
    size: int
    """Number of nodes in the body."""
    unread: Sequence[bool] = ()
    """For every state, whether the body does not read it, so that its initial value matters only without a turn."""


def repeated(repetition: Repetition) -> list[Value]:
    """The final states, then every scan output stacked along a new first dimension.

    Raises:
        Unsupported: A state changes its shape, or the number of scan outputs is not known, in a loop that cannot be
            unrolled.
    """
    results = unrolled(repetition)
    return looped(repetition) if results is None else results


def unrolled(repetition: Repetition) -> list[Value] | None:
    """Returns the results of the turns one after the other; None if their number is not known or too large."""
    limit = turns(repetition.count)
    if repetition.count is not None and limit is None:
        return None
    if limit is not None and limit >= NO_BOUND:
        limit = None
    most = MOST_UNROLLED_NODES // max(repetition.size, 1)
    if limit is not None and limit > most:
        return None
    going, states = repetition.condition, list(repetition.initial)
    rows: list[list[Value]] = []
    turn = 0
    while limit is None or turn < limit:
        if going.constant is None or turn > most:
            return None
        if not bool(going.constant.reshape(-1)[0]):
            break
        number = constant(np.array(turn, np.int64))
        going, states, outputs = repetition.step(number, going, states)
        rows.append(outputs)
        turn += 1
    if not rows:
        return [*states, *without_turns(repetition)]
    return [*states, *(stacked(column) for column in zip(*rows, strict=True))]


def bound(count: Value | None) -> Var | None:
    """The number of turns after which the loop ends; None if there is no limit, which :data:`NO_BOUND` stands for."""
    known = turns(count)
    if count is None or (known is not None and known >= NO_BOUND):
        return None
    return scalar(count)


def has_first_turn(repetition: Repetition) -> bool:
    """Whether it is certain that there is at least one turn."""
    condition = repetition.condition.constant
    limit = 1 if repetition.count is None else turns(repetition.count)
    return condition is not None and bool(condition.reshape(-1)[0]) and limit is not None and limit > 0


def turns(count: Value | None) -> int | None:
    """The largest number of turns; None if it is not known."""
    if count is None or count.constant is None:
        return None
    return max(int(count.constant.reshape(-1)[0]), 0)


def without_turns(repetition: Repetition) -> list[Value]:
    """Scan outputs of a loop that never runs; their shapes come from one turn, whose operations are not used."""
    _, _, outputs = repetition.step(constant(np.array(0, np.int64)), repetition.condition, repetition.initial)
    return [constant(np.zeros((0, *value.static_shape), value.dtype.numpy()), value.dtype) for value in outputs]


def stacked(values: Sequence[Value]) -> Value:
    """Tensors along a new first dimension."""
    dtype = values[0].dtype
    if all(value.constant is not None for value in values):
        return constant(np.stack([value.constant for value in values if value.constant is not None]), dtype)
    return computed(mb.stack(values=[value.var for value in values], axis=0), dtype)


def looped(repetition: Repetition) -> list[Value]:
    """A while loop over the turn number, the condition, the states and a buffer for each scan output."""
    if any(isinstance(state, TensorList) for state in repetition.initial):
        raise Unsupported("a sequence in a loop whose number of turns is not known")
    zero = opaque(mb.const(val=np.int32(0)))
    states = [computed(entering(state.var), state.dtype) for state in repetition.initial]
    first = opaque(scalar(repetition.condition))
    # One turn outside the loop gives types and shapes; its operations are not used.
    trial = repetition.step(computed(zero, ir.DataType.INT64), computed(first, ir.DataType.BOOL), states)
    unread = repetition.unread or (False,) * len(states)
    stand_ins = [
        only_left and ((has_first_turn(repetition) and new.is_static) or changed_axis(old, new) is not None)
        for old, new, only_left in zip(states, trial[1], unread, strict=True)
    ]
    states = [blank(new) if hidden else old for old, new, hidden in zip(states, trial[1], stand_ins, strict=True)]
    require_kept(states, trial[1])
    buffers = scan_buffers(repetition, trial[2], states)
    dtypes = [state.dtype for state in states]
    limit = bound(repetition.count)

    def condition(turn: Var, going: Var, *others: Var) -> Var:
        if limit is None:
            return mb.identity(x=going)
        return mb.logical_and(x=going, y=mb.less(x=turn, y=limit))

    def body(turn: Var, going: Var, *others: Var) -> tuple[Var, ...]:
        values = [computed(var, dtype) for var, dtype in zip(others, dtypes, strict=False)]
        number = computed(turn, ir.DataType.INT64)
        still, new_states, outputs = repetition.step(number, computed(going, ir.DataType.BOOL), values)
        written = [
            written_row(buffer, turn, output) for buffer, output in zip(others[len(dtypes) :], outputs, strict=True)
        ]
        new = [opaque(alike(state, old)) for state, old in zip(new_states, states, strict=True)]
        return (mb.add(x=turn, y=1), opaque(scalar(still)), *new, *written)

    loop_vars = (zero, first, *(state.var for state in states), *buffers)
    turn_count, _, *results = mb.while_loop(_cond=condition, _body=body, loop_vars=loop_vars)
    finals = [computed(var, dtype) for var, dtype in zip(results, dtypes, strict=False)]
    if not has_first_turn(repetition):
        finals = [
            last_or_first(last, first, turn_count) if hidden else last
            for last, first, hidden in zip(finals, repetition.initial, stand_ins, strict=True)
        ]
    scans = [
        through_bool(rows_before(buffer, turn_count), output.dtype)
        for buffer, output in zip(results[len(dtypes) :], trial[2], strict=True)
    ]
    return [*finals, *scans]


def blank(model: Value) -> Value:
    """Returns zeros in the type and shape of a tensor that is not computed yet."""
    zeros = constant(np.zeros(model.static_shape, model.dtype.numpy()), model.dtype)
    return computed(opaque(zeros.var), model.dtype)


def changed_axis(old: Value, new: Value) -> int | None:
    """The only axis along which a value changes its size, to a fixed one other than 0; None if there is none."""
    if old.dtype is not new.dtype or old.rank != new.rank or not (old.is_static and new.is_static):
        return None
    sizes = zip(old.static_shape, new.static_shape, strict=True)
    axes = [axis for axis, (before, after) in enumerate(sizes) if before != after]
    return axes[0] if len(axes) == 1 and new.static_shape[axes[0]] else None


def last_or_first(last: Value, first: Value, turn_count: Var) -> Value:
    """Returns a state, which no turn reads, after the last turn; its initial value if there was no turn.

    The two have different sizes along one axis, so the size of the result is known only at run time.
    """
    axis = changed_axis(first, last)
    if axis is None:
        raise ValueError(f"{first.shape} and {last.shape} are not of different sizes along one axis")
    before, after = first.static_shape[axis], last.static_shape[axis]
    has_run = mb.reshape(x=mb.minimum(x=turn_count, y=1), shape=[1])
    joined, begin = whole_numbers(last), [0] * last.rank
    if before:
        joined = mb.concat(values=[whole_numbers(first), joined], axis=axis)
        begin = vector([mb.mul(x=has_run, y=before) if place == axis else 0 for place in range(last.rank)])
    size = mb.add(x=mb.mul(x=has_run, y=after - before), y=before)
    sizes = vector([size if place == axis else each for place, each in enumerate(last.static_shape)])
    return through_bool(mb.slice_by_size(x=joined, begin=begin, size=sizes), last.dtype)


def opaque(var: Var) -> Var:
    """A copy whose value the builder does not know: it would use a constant initial value in every turn."""
    copied = mb.identity(x=plain(var))
    copied._sym_val = None
    return copied


def entering(var: Var) -> Var:
    """An opaque copy of an initial state; if that repeats one number, the copy has the sizes that it is repeated to."""
    sizes = _repeated_to(var)
    return opaque(var) if sizes is None else of_sizes(opaque(var), sizes)


def _repeated_to(var: Var) -> list[Any] | None:
    """The sizes of a tensor that repeats one number; None for any other tensor, and if the sizes are not known."""
    operation = var.op
    if operation is None or operation.op_type != "tile" or any(size != 1 for size in operation.inputs["x"].shape):
        return None
    counts = operation.inputs["reps"]
    choice = counts.op
    if choice is not None and choice.op_type == "select":  # as ``expanded`` makes it: sizes, or 1 where not repeated
        taken = choice.inputs["cond"].val
        counts = choice.inputs["a"] if taken is not None and bool(np.all(taken)) else counts
    return None if counts.sym_val is None else list(counts.sym_val)


def plain(var: Var) -> Var:
    """Returns the value; a tensor without axes, as some operations return it, becomes a scalar as most return it.

    Loops and branches treat the two as different types.
    """
    if var.rank or not types.is_tensor(var.sym_type):
        return var
    return mb.squeeze(x=mb.expand_dims(x=var, axes=[0]), axes=[0])


def scalar(value: Value) -> Var:
    """A value of one element as a scalar.

    Raises:
        Infeasible: It has another number of elements.
    """
    if value.is_static and math.prod(value.static_shape) != 1:
        raise Infeasible(f"takes one number, found {value.shape_text}", "check what the shapes are fixed to")
    return mb.squeeze(x=value.var) if value.rank else value.var


def require_kept(before: Sequence[Value], after: Sequence[Value]) -> None:
    """Raise Unsupported if a state changes its type or shape; one that is passed on unchanged may have open sizes."""
    for old, new in zip(before, after, strict=True):
        if new.var is old.var:
            continue
        if old.dtype is not new.dtype or not (_may_be_of(old, new) or fits(old, new)):
            raise Unsupported(
                f"a state changes from {list(old.shape)} to {list(new.shape)} in a loop that cannot be unrolled",
                "make the number of turns a constant",
            )


def _may_be_of(old: Value, new: Value) -> bool:
    """Whether ``new`` may have the fixed shape of ``old``: its known sizes are the same, and the others are open."""
    sizes = zip(old.shape, new.shape, strict=False)
    return old.is_static and old.rank == new.rank and all(not is_number(size) or was == size for was, size in sizes)


def fits(one: Value, other: Value) -> bool:
    """Whether two values have one shape, or one element each: exporters write () for (1,) and the reverse."""
    if one.shape == other.shape:
        return True
    return all(value.is_static and math.prod(value.static_shape) == 1 for value in (one, other))


def alike(value: Value, model: Value) -> Var:
    """Returns a value in the shape of ``model``, which it :func:`fits`."""
    return plain(value.var if value.shape == model.shape else reshaped(value, model.static_shape))


def scan_buffers(repetition: Repetition, outputs: Sequence[Value], states: Sequence[Value]) -> list[Var]:
    """Buffers with a row per turn for each scan output; open sizes are those of states, bool is stored as 0 and 1."""
    if not outputs:
        return []
    rows = most_rows(repetition.count)
    buffers = []
    for output in outputs:
        carrier = np.float32 if output.is_float else np.int32
        room = mb.fill(shape=vector([rows, *sizes_among(states, output)]), value=carrier(0))
        buffers.append(opaque(room))
    return buffers


def sizes_among(states: Sequence[Value], output: Value) -> list[Any]:
    """A tensor's sizes; open ones as vectors of one element, computed from states that have the same size.

    Raises:
        Unsupported: No state has the open size.
    """
    places = {size: (state, axis) for state in states for axis, size in enumerate(state.shape) if not is_number(size)}
    if any(not is_number(size) and size not in places for size in output.shape):
        return list(output.static_shape)
    return [size if is_number(size) else size_of(places[size][0].var, places[size][1]) for size in output.shape]


def most_rows(count: Value | None) -> Any:
    """The largest number of turns: a number, or a vector of one element, at least 1, if it is known only at run time.

    Raises:
        Unsupported: The number of turns has no limit.
    """
    limit = turns(count)
    if limit is not None and limit < NO_BOUND:
        return limit
    if count is None or limit is not None:
        raise Unsupported("collects outputs of a number of turns that is not known", "make the trip count a constant")
    size = _size_of_dimension(count.var)
    return mb.reshape(x=mb.maximum(x=count.var, y=1) if size is None else size, shape=[1])


def _size_of_dimension(count: Var) -> Var | None:
    """Returns the size of the open dimension that a number of turns equals, which is at least 1; else None."""
    while count.sym_val is None and count.op is not None:
        operation = count.op
        if not _hands_size_on(operation):
            return None
        count = operation.inputs["x"]
    return None if count.sym_val is None else count


def _hands_size_on(operation: Any) -> bool:
    """Whether an operation returns a number of at least 1 unchanged."""
    if operation.op_type == "maximum":
        least = operation.inputs["y"].val
        return least is not None and bool(np.all(least <= 1))
    whole = operation.op_type == "cast" and types.is_int(operation.inputs["x"].dtype)
    return whole or operation.op_type in ("identity", "squeeze")


def written_row(buffer: Var, turn: Var, output: Value) -> Var:
    """The buffer with this turn's output in its row."""
    rows = mb.expand_dims(x=whole_numbers(output), axes=[0])
    places = mb.expand_dims(x=turn, axes=[0])
    return mb.scatter(data=buffer, indices=places, updates=rows, axis=0, mode="update")


def rows_before(buffer: Var, turn_count: Var) -> Var:
    """Returns the rows that were written: all rows if only the count ends the loop."""
    sizes = [mb.expand_dims(x=turn_count, axes=[0]), *(size_of(buffer, axis) for axis in range(1, buffer.rank))]
    return mb.slice_by_size(x=buffer, begin=[0] * buffer.rank, size=vector(sizes))


def whole_numbers(value: Value) -> Var:
    """Returns a value with bool converted to 0 and 1 in int32."""
    return mb.cast(x=value.var, dtype="int32") if value.dtype is ir.DataType.BOOL else value.var


def through_bool(var: Var, dtype: ir.DataType) -> Value:
    """A buffer's rows in the type of the scan output."""
    return computed(mb.cast(x=var, dtype="bool") if dtype is ir.DataType.BOOL else var, dtype)
