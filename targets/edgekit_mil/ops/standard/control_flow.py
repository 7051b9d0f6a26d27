"""If, Loop and Scan: decided, unrolled or computed by the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.picks import with_picks
from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FLOATS, Infeasible, Unsupported, Value, computed, constant
from edgekit_mil.support.growing_lists import GrowingList, growing_lists, grown, without_lists
from edgekit_mil.support.iteration import (
    Repetition,
    alike,
    fits,
    looped,
    opaque,
    repeated,
    stacked,
    through_bool,
    unrolled,
    whole_numbers,
)
from edgekit_mil.support.movement import normalized_axis
from edgekit_mil.support.runtime_shapes import is_number, note_greater_limit, size_of, vector

IF_NOTE = (
    "branches of one rank (of one element, in any rank), unless the condition folds; "
    "a branch that cannot run with the shapes of the inputs is left out, and NaN comes where the condition asks for it"
)
SCAN_NOTE = "unrolled where the count is known and small; else values keep their shapes"
LOOP_NOTE = f"{SCAN_NOTE}, but for lists and sequences that are only added to"


@lowering("If", versions=[1, 11, 13, 16, 19, 21, 23, 24, 25], note=IF_NOTE)
def if_else(ctx: Context, condition: Value, *, then_branch: ir.Graph, else_branch: ir.Graph) -> list[Value]:
    """One branch if the condition is known, or if the other cannot run with these shapes; else both."""
    if condition.constant is not None:
        return ctx.lower_graph(then_branch if condition.constant.reshape(-1)[0] else else_branch, [])
    tried = [attempted(ctx, graph) for graph in (then_branch, else_branch)]
    for values, other in zip(tried, (else_branch, then_branch), strict=True):
        if values is None:
            return only_branch(ctx, condition, other, when=other is then_branch)
    open_axes = [differing_axes(one, other) for one, other in zip(*(values or [] for values in tried), strict=True)]
    lowered: list[list[Value]] = []

    def branch(graph: ir.Graph) -> tuple[Var, ...]:
        values = ctx.lower_graph(graph, [])
        lowered.append(values)
        pairs = zip(values, lowered[0], open_axes, strict=True)
        # A branch may return only what it computes itself, neither constants nor values from outside.
        return tuple(
            of_open_sizes(value, axes) if axes else mb.identity(x=alike(value, first)) for value, first, axes in pairs
        )

    predicate = mb.squeeze(x=condition.var) if condition.rank else condition.var
    results = mb.cond(pred=predicate, _true_fn=lambda: branch(then_branch), _false_fn=lambda: branch(else_branch))
    variables = results if isinstance(results, tuple | list) else [results]
    for var, *sides in zip(variables, *lowered, strict=True):
        for axis, size in enumerate(var.shape):
            note_greater_limit(size, *(side.shape[axis] for side in sides if side.rank == var.rank))
    return [
        through_bool(var, value.dtype) if axes else computed(var, value.dtype)
        for var, value, axes in zip(variables, lowered[0], open_axes, strict=True)
    ]


def attempted(ctx: Context, branch: ir.Graph) -> list[Value] | None:
    """The results of a branch, whose operations are not used; None if it cannot run with these shapes."""
    try:
        return ctx.lower_graph(branch, [])
    except Infeasible:
        return None


def differing_axes(one: Value, other: Value) -> list[int]:
    """The axes along which the results of two branches have different sizes, as far as is known during conversion.

    Raises:
        Unsupported: The results differ in type or rank, and do not have one element each.
    """
    if one.dtype is not other.dtype or not (one.rank == other.rank or fits(one, other)):
        raise Unsupported(
            f"one branch gives {one.dtype.name.lower()} {list(one.shape)}, "
            f"the other {other.dtype.name.lower()} {list(other.shape)}",
            "make the condition a constant, for example by fixing the input shapes",
        )
    if fits(one, other):
        return []
    return [axis for axis, sizes in enumerate(zip(one.shape, other.shape, strict=True)) if sizes[0] != sizes[1]]


def of_open_sizes(value: Value, axes: Sequence[int]) -> Var:
    """A value whose sizes along some axes are unknown to the builder; bool becomes 0 and 1."""
    var = whole_numbers(value)
    sizes = [size_of(var, axis) for axis in range(var.rank)]
    for axis in axes:
        size = sizes[axis]
        sizes[axis] = opaque(mb.const(val=np.array([size], np.int32)) if is_number(size) else size)
    return mb.slice_by_size(x=var, begin=[0] * var.rank, size=vector(sizes))


def only_branch(ctx: Context, condition: Value, branch: ir.Graph, *, when: bool) -> list[Value]:
    """The one branch that can run; its floats are NaN where the condition asks for the other one.

    Args:
        ctx: The node.
        condition: The condition, which is known only at run time.
        branch: The branch that can run.
        when: The value of the condition for which the branch is meant.
    """
    values = ctx.lower_graph(branch, [])
    if not any(value.dtype in FLOATS for value in values):
        raise Unsupported(
            f"the branch for a condition that is {str(not when).lower()} cannot run with these shapes, and no output "
            "is a float that could be NaN to show it",
            "make the condition a constant",
        )
    ctx.note(
        f"If (node {ctx.name!r}): the branch for a condition that is {str(not when).lower()} cannot run with the fixed "
        "input shapes and is left out; where the condition asks for it, the floating-point outputs are NaN"
    )
    asked = mb.cast(x=condition.var, dtype="fp32")
    asked = mb.squeeze(x=asked) if condition.rank else asked
    weight = asked if when else mb.sub(x=1.0, y=asked)
    guard = mb.sub(x=mb.real_div(x=weight, y=weight), y=1.0)  # 0, or NaN from 0/0
    return [computed(mb.add(x=value.var, y=guard), value.dtype) if value.dtype in FLOATS else value for value in values]


@lowering("Loop", versions=[1, 11, 13, 16, 19, 21, 23, 24, 25], note=LOOP_NOTE)
def loop(ctx: Context, count: Value | None, condition: Value | None, *initial: Value, body: ir.Graph) -> list[Value]:
    """Runs the body while the condition holds, at most ``count`` times."""
    body = with_picks(body)
    lists = growing_lists(body, initial)
    if any(each.axis is not None for each in lists):
        lists = [each for each in lists if each.axis is not None]
        return _with_lists(ctx, count, condition, initial, body, lists)
    carried = len(initial)

    def step(turn: Value, going: Value, states: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
        counted = [as_declared(value, entry) for value, entry in zip((turn, going), body.inputs, strict=False)]
        results = ctx.lower_graph(body, [*counted, *states])
        return results[0], results[1 : carried + 1], results[carried + 1 :]

    at_first = constant(np.array(True)) if condition is None else condition
    unread = [not (value.uses() or value.is_graph_output()) for value in list(body.inputs)[2:]]
    repetition = Repetition(step, count, at_first, initial, size=number_of_nodes(body), unread=unread)
    results = unrolled(repetition)  # unrolled, a sequence may have tensors of several shapes
    if results is not None:
        return results
    return _with_lists(ctx, count, condition, initial, body, lists) if lists else looped(repetition)


def as_declared(value: Value, entry: ir.Value) -> Value:
    """A turn's number or condition in the shape that the body declares: some exporters use a vector of one element."""
    if value.rank or entry.shape is None or entry.shape.rank() != 1:
        return value
    if value.constant is not None:
        return constant(value.constant.reshape(1), value.dtype)
    return computed(mb.expand_dims(x=value.var, axes=[0]), value.dtype)


def _with_lists(
    ctx: Context,
    count: Value | None,
    condition: Value | None,
    initial: Sequence[Value],
    body: ir.Graph,
    lists: Sequence[GrowingList],
) -> list[Value]:
    """Converts a loop whose lists are collected in the same way as scan outputs."""
    places = {each.state: number for number, each in enumerate(lists)}
    others = [value for place, value in enumerate(initial) if place not in places]
    results = loop(ctx, count, condition, *others, body=without_lists(body, lists))
    rows = results[len(results) - len(lists) :]
    kept = iter(results[: len(others)])
    states = [
        grown(first, rows[places[place]], lists[places[place]].axis) if place in places else next(kept)
        for place, first in enumerate(initial)
    ]
    return [*states, *results[len(others) : len(results) - len(lists)]]


@lowering("Scan", versions=[9, 11, 16, 19, 21, 23, 24, 25], note=SCAN_NOTE)
def scan(
    ctx: Context,
    *inputs: Value,
    body: ir.Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> list[Value]:
    """Runs the body once for every slice of the scanned inputs."""
    states = len(inputs) - num_scan_inputs
    scanned = inputs[states:]
    axes = [
        normalized_axis(axis, x.rank) for axis, x in zip(scan_input_axes or [0] * len(scanned), scanned, strict=True)
    ]
    backwards = scan_input_directions or [0] * len(scanned)
    (count,) = scanned[0].static_sizes([axes[0]])

    def step(turn: Value, going: Value, values: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
        slices = [
            element(x, axis, turn, count, reverse=bool(reverse))
            for x, axis, reverse in zip(scanned, axes, backwards, strict=True)
        ]
        results = ctx.lower_graph(body, [*values, *slices])
        return going, results[:states], results[states:]

    repetition = Repetition(
        step,
        constant(np.array(count, np.int64)),
        constant(np.array(True)),
        inputs[:states],
        size=number_of_nodes(body),
    )
    results = repeated(repetition)
    outputs = len(results) - states
    directions = scan_output_directions or [0] * outputs
    places = scan_output_axes or [0] * outputs
    stacked = [
        arranged(value, axis, reverse=bool(reverse))
        for value, axis, reverse in zip(results[states:], places, directions, strict=True)
    ]
    return [*results[:states], *stacked]


@lowering("Scan", versions=[8], note="of whole sequences, of one length")
def batched_scan(
    ctx: Context,
    lengths: Value | None,
    *inputs: Value,
    body: ir.Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> list[Value]:
    """Runs the scan for each member of a batch, one after the other."""
    if lengths is not None:
        raise Unsupported("sequences of their own lengths", "convert the model to opset 9 or later")
    batch = inputs[0].static_shape[0]
    results = [
        scan(
            ctx,
            *(member(x, number) for x in inputs),
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for number in range(batch)
    ]
    return [stacked(column) for column in zip(*results, strict=True)]


def member(x: Value, number: int) -> Value:
    """One member of a batch."""
    return computed(mb.gather(x=x.var, indices=np.int32(number), axis=0), x.dtype)


def element(x: Value, axis: int, turn: Value, count: int, *, reverse: bool) -> Value:
    """The slice for a turn, without the scanned dimension."""
    if turn.constant is not None:
        number = count - 1 - int(turn.constant) if reverse else int(turn.constant)
        place: Var = mb.const(val=np.int32(number))
    else:
        place = mb.sub(x=count - 1, y=turn.var) if reverse else turn.var
    if x.dtype is ir.DataType.BOOL:
        raise Unsupported("scans truth values")
    return computed(mb.gather(x=x.var, indices=place, axis=axis), x.dtype)


def arranged(stacked: Value, axis: int, *, reverse: bool) -> Value:
    """A scan's output with its first dimension reversed on demand, and moved to an axis."""
    var = mb.reverse(x=stacked.var, axes=[0]) if reverse else stacked.var
    axis = normalized_axis(axis, stacked.rank)
    if axis:
        var = mb.transpose(x=var, perm=[*range(1, axis + 1), 0, *range(axis + 1, stacked.rank)])
    return computed(mb.identity(x=var), stacked.dtype)


def number_of_nodes(graph: ir.Graph) -> int:
    """Number of nodes in a graph, including those in its subgraphs."""
    return sum(1 for _ in ir.traversal.RecursiveGraphIterator(graph))
