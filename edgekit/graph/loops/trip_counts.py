"""Loops whose condition compares a counter with a limit: the number of iterations becomes their trip count.

Exporters of TensorFlow's ``while_loop`` (tf2onnx) write ``counter < limit`` as the condition and the largest integer,
or none, as the trip count. If only its trip count ends a loop, the number of rows that the loop collects is known, and
a device knows the number of iterations before the loop starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loops.values import (
    INTEGERS,
    LoopValues,
    constant_of,
    plain_scalar,
    size_of,
    source,
    whole_number,
)
from edgekit.model import node_name

LARGEST_LIMIT = 2**30
"""Types in which a counter is compared with a computed limit have to represent every integer up to this one."""
LARGEST_SIZE = 2**23
"""Types in which a counter is compared with a tensor's size have to represent every integer up to this one.

No loop over a tensor takes more iterations.
"""
UNLIMITED = 2**31 - 1
"""A trip count of at least this does not limit a loop that a tensor's size or a 32-bit integer ends."""
ENDLESS = 2**63 - 1
"""A trip count that does not limit any loop: the largest int64."""
INTEGER_EXTREMES = 12
"""The first opset in which Min and Max accept integers."""

_COMPARISONS = {"Less": (1, 0), "LessOrEqual": (1, 1), "Greater": (-1, 0), "GreaterOrEqual": (-1, 1)}
"""Per operator ``a ? b``: the sign of ``sign a < sign b``, and 1 if it also holds for equal numbers, else 0."""
_NEGATED = {"Less": "GreaterOrEqual", "LessOrEqual": "Greater", "Greater": "LessOrEqual", "GreaterOrEqual": "Less"}


@dataclass(frozen=True)
class _Bound:
    """At most ``max(least, ceil((limit + offset) / step))`` iterations; without a limit, at most ``offset``."""

    limit: ir.Value | None
    offset: int
    step: int = 1
    least: int = 0

    def covers(self, other: _Bound) -> bool:
        """Whether this bound has the limit and the step of another one and is never greater than it."""
        same = self.limit is other.limit and self.step == other.step
        return same and self.offset <= other.offset and self.least <= other.least


@dataclass(frozen=True)
class _Comparison:
    """``sign tested < sign limit``, or ``<=`` if ``equal`` is 1."""

    tested: ir.Value
    limit: ir.Value
    sign: int
    equal: int

    @property
    def swapped(self) -> _Comparison:
        """The comparison with its sides exchanged."""
        return _Comparison(self.limit, self.tested, -self.sign, self.equal)


def set_trip_counts(model: ir.Model) -> bool:
    """Gives loops the trip count that the comparison of a counter in their condition amounts to, in place.

    Parts of the condition that are not such a comparison stay, and the trip count is then an upper limit. Comparisons
    of integers as floats that cannot represent all of them stay, too.

    Returns:
        Whether anything changed. If so, folding constants may make more limits known.
    """
    changed = False
    for graph in list(model.graphs()):
        for node in list(graph):
            if node.op_type == "Loop" and not node.domain:
                changed |= _Conditioned(node, model.opset_imports.get("", 0)).count()
                changed |= _tell_lengths(node)
    if changed:
        RemoveUnusedNodesPass()(model)
    return changed


def ends_by_count(loop: ir.Node) -> bool:
    """Whether nothing but its trip count ends a loop."""
    return _is_true_outside(loop.inputs[1]) and not _Conditioned(loop, 0).parts


class _Conditioned:
    """A Loop and the parts of its condition.

    Args:
        loop: The node.
        opset: The version of the standard operators.
    """

    def __init__(self, loop: ir.Node, opset: int) -> None:
        self._loop = loop
        self._opset = opset
        self._values = LoopValues(loop)
        self.parts = [part for part in _conjuncts(self._values.body.outputs[0]) if not self._holds(part)]
        """What has to be true after an iteration for another one to start, other than its own entry condition."""

    def count(self) -> bool:
        """Gives the loop its trip count; returns whether the loop changed."""
        loop, before, entry = self._loop, self._loop.inputs[0], self._loop.inputs[1]
        comparisons = [_comparison(part) for part in self.parts]
        bounds = [self._bound(comparison) for comparison in comparisons]
        pairs = zip(comparisons, bounds, strict=True)
        looser = [self._bound(self._unrounded(comparison)) for comparison, bound in pairs if bound is None]
        known = [bound for bound in bounds if bound is not None]
        at_most = [bound for bound in looser if bound is not None]
        if _is_false(entry) or not (known or at_most or _is_foldable(before)):
            return False
        if entry is not None and (entered := _with_entry(entry, known)) is not None:
            known, entry = entered, None
        known += at_most
        if before is not None:
            known += _of_count(before)
        least = [bound for place, bound in enumerate(known) if not _is_covered(bound, known, place)]
        complete = None not in bounds
        if not complete and _is_count(before, least):
            return False
        count = self._computed(least)
        if count is None:
            return False
        loop.replace_input_with(0, count)
        loop.replace_input_with(1, entry)
        if complete and bounds:
            self._go_on()
        return True

    def _holds(self, part: ir.Value) -> bool:
        """Whether a part of the condition is true after each iteration: the entry condition or a true constant."""
        if source(part) is self._values.body.inputs[1]:
            return True
        constant = self._values.constant(part)
        return constant is not None and bool(constant.reshape(-1)[0])

    def _bound(self, comparison: _Comparison | None) -> _Bound | None:
        """How many iterations a comparison allows; None where that is not known."""
        if comparison is None:
            return None
        counter = self._values.counter(comparison.tested)
        if counter is None:
            comparison = comparison.swapped
            counter = self._values.counter(comparison.tested)
        if counter is None or counter.step * comparison.sign <= 0:
            return None
        first, step = counter.first * comparison.sign, counter.step * comparison.sign
        limit, exact_to = self._limit(comparison.limit)
        exact_to = min(exact_to, counter.exact_to)
        beyond = None if limit is None else _first_beyond(limit, comparison)
        if beyond is not None:
            turns = max(1, -((first - step - beyond) // step))
            return _Bound(None, turns) if max(abs(first), abs(beyond) + step) <= exact_to else None
        if limit is None or limit.dtype not in INTEGERS or comparison.sign < 0:
            return None
        if exact_to < (LARGEST_LIMIT if size_of(limit) is None else LARGEST_SIZE):
            return None
        return _Bound(limit, step - first + comparison.equal, step, least=1)

    def _unrounded(self, comparison: _Comparison | None) -> _Comparison | None:
        """Returns the comparison of the integers that both sides are rounded from, or None if they are not rounded.

        If one rounded number is less than the other, so is the integer.
        """
        if comparison is None or comparison.equal:
            return None
        tested, limit = (_rounded(self._values.outside(each) or each) for each in (comparison.tested, comparison.limit))
        if tested is None or limit is None or tested[1] != limit[1]:
            return None
        return replace(comparison, tested=tested[0], limit=limit[0])

    def _limit(self, value: ir.Value) -> tuple[ir.Value | None, int]:
        """Returns the outside value, without casts, that a limit is, and the number up to which it is exact."""
        inner, exact_to = plain_scalar(value)
        outer = self._values.outside(inner)
        if outer is None:
            return None, 0
        plain, exact_outside = plain_scalar(outer)
        return plain, min(exact_to, exact_outside)

    def _computed(self, bounds: Sequence[_Bound]) -> ir.Value | None:
        """Returns the minimum of bounds, computed ahead of the loop, or None if the opset cannot express it."""
        limited = [bound for bound in bounds if bound.limit is not None]
        numbers = [bound.offset for bound in bounds if bound.limit is None]
        if limited:
            narrow = all(_is_narrow(bound.limit) for bound in limited if bound.limit is not None)
            numbers = [number for number in numbers if number < (UNLIMITED if narrow else ENDLESS)]
        if len(limited) + len(numbers) > 1 or any(bound.least for bound in limited):
            if self._opset < INTEGER_EXTREMES:
                return None
        elif limited and _is_count(self._loop.inputs[0], limited):
            return self._loop.inputs[0]
        build = NodeBuilder(self._opset, f"{node_name(self._loop)}/turns")
        terms = [_term(build, bound) for bound in limited]
        terms += [build.constant(np.array(number, np.int64)) for number in numbers]
        count = build("Min", *terms) if len(terms) > 1 else terms[0]
        graph = self._loop.graph
        if graph is None:
            raise ValueError(f"the loop {self._loop.name!r} is in no graph")
        for value in build.initializers:
            graph.register_initializer(value)
        graph.insert_before(self._loop, build.nodes)
        return count

    def _go_on(self) -> None:
        """Passes the condition through the body unchanged, so that only the trip count ends the loop."""
        body = self._values.body
        going = ir.node("Identity", [body.inputs[1]], name=f"{node_name(self._loop)}/goes_on")
        going.outputs[0].name = going.name
        going.outputs[0].type, going.outputs[0].shape = ir.TensorType(ir.DataType.BOOL), body.inputs[1].shape
        body.append(going)
        body.outputs[0] = going.outputs[0]


def _conjuncts(condition: ir.Value) -> Iterator[ir.Value]:
    """Yields the parts that all have to be true for a condition to be true.

    TorchScript's ``a and b`` is an If that gives ``b`` where ``a`` holds, and else false.
    """
    value = _truth(condition)
    node = value.producer()
    if node is not None and (node.op_type, node.domain) == ("And", ""):
        for part in node.inputs:
            if part is not None:
                yield from _conjuncts(part)
    elif node is not None and (node.op_type, node.domain) == ("If", "") and _is_false_unless_taken(node):
        assert node.inputs[0] is not None
        yield from _conjuncts(node.inputs[0])
        yield from _conjuncts(node.attributes["then_branch"].as_graph().outputs[0])
    else:
        yield value


def _is_false_unless_taken(node: ir.Node) -> bool:
    """Whether an If of one output gives false where its condition does not hold."""
    if len(node.outputs) != 1 or node.inputs[0] is None:
        return False
    otherwise = _truth(node.attributes["else_branch"].as_graph().outputs[0])
    return otherwise is _truth(node.inputs[0]) or _is_false(otherwise)


def _truth(value: ir.Value) -> ir.Value:
    """Returns the value ahead of Identity nodes and of casts of booleans to booleans."""
    value = source(value)
    while (node := value.producer()) is not None and (node.op_type, node.domain) == ("Cast", ""):
        before = node.inputs[0]
        if before is None or ir.DataType.BOOL not in (before.dtype, _made(source(before))):
            break
        if node.attributes.get_int("to", 0) != ir.DataType.BOOL:
            break
        value = source(before)
    return value


def _made(value: ir.Value) -> ir.DataType | None:
    """Returns BOOL if the operator that makes a value always returns booleans, else None."""
    node = value.producer()
    gives_truth = node is not None and not node.domain and node.op_type in (*_COMPARISONS, "And", "Equal", "Not", "Or")
    return ir.DataType.BOOL if gives_truth else None


def _comparison(value: ir.Value) -> _Comparison | None:
    """Returns the comparison whose result a value is, or None if it is not the result of one."""
    node, negated = _truth(value).producer(), False
    while node is not None and (node.op_type, node.domain) == ("Not", "") and node.inputs[0] is not None:
        node, negated = _truth(node.inputs[0]).producer(), not negated
    if node is None or node.domain or node.op_type not in _COMPARISONS:
        return None
    one, other = node.inputs
    sign, equal = _COMPARISONS[_NEGATED[node.op_type] if negated else node.op_type]
    return None if one is None or other is None else _Comparison(one, other, sign, equal)


def _rounded(value: ir.Value) -> tuple[ir.Value, ir.DataType] | None:
    """Returns the integer and the float type it is cast to if a value is an integer cast to floats, else None."""
    node = source(value).producer()
    if node is None or (node.op_type, node.domain) != ("Cast", "") or node.inputs[0] is None:
        return None
    dtype = ir.DataType(node.attributes["to"].as_int())
    return (node.inputs[0], dtype) if node.inputs[0].dtype in INTEGERS and dtype.is_floating_point() else None


def _first_beyond(limit: ir.Value, comparison: _Comparison) -> int | None:
    """Returns the least integer ``sign tested`` for which a comparison with a constant fails; None for other limits."""
    size, array = size_of(limit), constant_of(limit)
    if size is not None and size.known is not None:
        array = np.array(size.known)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return None
    number: int | float = array.reshape(-1)[0].item() * comparison.sign
    return math.floor(number) + 1 if comparison.equal else math.ceil(number)


def _with_entry(entry: ir.Value, bounds: Sequence[_Bound]) -> list[_Bound] | None:
    """Returns the bounds combined with the condition of the first iteration, or None if they do not express it.

    Each part of that condition has to be the comparison of one of the bounds, with the counter's value before the first
    iteration. That bound then allows 0 iterations, too.
    """
    found = list(bounds)
    for part in _conjuncts(entry):
        if _is_true_outside(part):
            continue
        asked = _asked_at_entry(part)
        places = [place for place, bound in enumerate(bounds) if asked == (bound.limit, bound.offset)]
        if not places:
            return None
        found[places[0]] = replace(bounds[places[0]], least=0)
    return found


def _asked_at_entry(part: ir.Value) -> tuple[ir.Value, int] | None:
    """The limit, and the offset, whose sum has to be positive for a comparison to hold."""
    comparison = _comparison(part)
    if comparison is None:
        return None
    for each in (comparison, comparison.swapped):
        first, limit = constant_of(plain_scalar(each.tested)[0]), plain_scalar(each.limit)[0]
        if each.sign > 0 and first is not None and first.size == 1 and float(first.reshape(-1)[0]).is_integer():
            return limit, each.equal - int(first.reshape(-1)[0])
    return None


def _of_count(count: ir.Value) -> list[_Bound]:
    """Returns the bounds that a trip count expresses; reads counts written by :func:`_term` back as their bound."""
    size, number = size_of(count), whole_number(constant_of(count))
    number = size.known if size is not None and size.known is not None else number
    if number is not None:
        return [_Bound(None, max(number, 0))]
    node = source(count).producer()
    if node is not None and (node.op_type, node.domain) == ("Min", ""):
        return [bound for term in node.inputs if term is not None for bound in _of_count(term)]
    value, least = _with_number(count, "Max", 0)
    value, step = _with_number(value, "Div", 1)
    value, added = _with_number(value, "Add", 0)
    if least < 0 or step < 1:
        value, least, step, added = count, 0, 1, 0
    plain, exact_to = plain_scalar(value)
    limit = plain if exact_to >= LARGEST_LIMIT and plain.dtype in INTEGERS else value
    return [_Bound(limit, added - step + 1, step, least)]


def _with_number(value: ir.Value, op_type: str, without: int) -> tuple[ir.Value, int]:
    """Returns the left operand and the constant right operand of the 64-bit integer operator that makes a value.

    If another operator makes the value, or the right operand is not constant, returns the value itself and ``without``.
    """
    node = source(value).producer()
    if node is None or (node.op_type, node.domain) != (op_type, "") or len(node.inputs) != 2:
        return value, without
    first, second = node.inputs
    number = None if second is None else whole_number(constant_of(second))
    if first is None or number is None or first.dtype not in (None, ir.DataType.INT64):
        return value, without
    return first, number


def _is_foldable(count: ir.Value | None) -> bool:
    """Whether a trip count is computed by nodes and yet has a known value."""
    if count is None or constant_of(count) is not None:
        return False
    return all(bound.limit is None for bound in _of_count(count))


def _is_covered(bound: _Bound, bounds: Sequence[_Bound], place: int) -> bool:
    """Whether a bound is redundant because another bound, or an equal bound before it, covers it."""
    return any(
        other.covers(bound) and (not bound.covers(other) or number < place)
        for number, other in enumerate(bounds)
        if number != place
    )


def _is_count(count: ir.Value | None, bounds: Sequence[_Bound]) -> bool:
    """Whether a trip count expresses exactly the given bounds."""
    return count is not None and set(bounds) == set(_of_count(count))


def _is_narrow(limit: ir.Value) -> bool:
    """Whether a limit is a 32-bit integer or a tensor's size, so that :data:`UNLIMITED` does not limit it further."""
    return limit.dtype == ir.DataType.INT32 or size_of(limit) is not None


def _term(build: NodeBuilder, bound: _Bound) -> ir.Value:
    """Returns a bound as a computed scalar; a negative number means no iterations, as it does in a trip count."""
    result = build.cast(bound.limit, ir.DataType.INT64)
    added = bound.offset + bound.step - 1
    result = build("Add", result, np.int64(added)) if added else result
    result = build("Div", result, np.int64(bound.step)) if bound.step > 1 else result
    return build("Max", result, np.int64(bound.least)) if bound.least else result


def _is_true_outside(value: ir.Value | None) -> bool:
    constant = None if value is None else constant_of(source(value))
    return value is None or (constant is not None and bool(constant.reshape(-1)[0]))


def _is_false(value: ir.Value | None) -> bool:
    constant = None if value is None else constant_of(source(value))
    return constant is not None and not constant.reshape(-1)[0]


def _tell_lengths(loop: ir.Node) -> bool:
    """Sets how many rows a loop collects if its trip count is constant; returns whether that was not known before."""
    count = None if loop.inputs[0] is None else whole_number(constant_of(loop.inputs[0]))
    values = LoopValues(loop)
    if count is None or not ends_by_count(loop):
        return False
    changed = False
    rows = values.body.outputs[1 + values.states :]
    for collected, row in zip(loop.outputs[values.states :], rows, strict=True):
        known = collected.shape[1:] if collected.shape is not None else row.shape
        if known is None or (collected.shape is not None and isinstance(collected.shape[0], int)):
            continue
        collected.shape = ir.Shape([max(count, 0), *(size if isinstance(size, int) else None for size in known)])
        changed = True
    return changed
