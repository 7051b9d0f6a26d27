"""Constants that keep numbers from zero, such as 1e-8 in ``x / (total + 1e-8)``, and that float16 rounds to zero.

Without them a silent sound, a black picture or padding leads to a division by zero: 0 / 0 is NaN, and the logarithm of
0 is infinite. Samples need not contain such inputs, so what stays in float32 does not depend on samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mil.core.exactness import COMPARISONS, MOVES, operations_of
from edgekit_mil.core.mil import Program

GUARDS = frozenset({"add", "clip", "maximum", "select", "sub"})
"""Operations by which constants keep numbers from zero."""
CARRIES = MOVES | {
    "abs", "atan", "clip", "maximum", "minimum", "mul", "pow", "reduce_l1_norm", "reduce_l2_norm", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "reduce_sum_square", "relu", "select", "sign", "sin",
    "sqrt", "square", "tanh",
}  # fmt: skip
"""Operations that numbers near zero pass through until something divides by them."""
SUMS = frozenset({"add", "sub"})
INVERTS = frozenset({"inverse", "rsqrt"})
BOUNDS = frozenset({"clip", "maximum", "minimum"})
"""Operations by which constants bound a quotient."""
PICKS = BOUNDS | {"select"}
"""Operations whose results are elements of their inputs, or constants."""
SHIFTED = frozenset({"inverse", "log", "rsqrt"})
"""Operations that add ``epsilon`` to the number that they divide by or take the logarithm of."""
SMALL = MOVES | {
    "exp", "mul", "pow", "reduce_l2_norm", "reduce_mean", "reduce_sum", "reduce_sum_square", "sigmoid", "softmax",
    "sqrt", "square",
}  # fmt: skip
"""Operations whose results float16 may round to zero although their inputs are not zero."""
LARGEST_RECIPROCAL = float(np.finfo(np.float16).smallest_subnormal) ** -0.5
"""The largest reciprocal of a number whose square float16 does not round to zero."""
LEAST_LOGARITHM = float(np.log(np.finfo(np.float16).smallest_subnormal))


def guarded_divisions(program: Program) -> frozenset[str]:
    """Names of operations that guard numbers from zero by constants that float16 rounds to zero, and of related ones.

    Related are the operations that compute these numbers, and those that lead from them to a logarithm or to a division
    by them. A reciprocal may be larger than float16's largest number, so operations that multiply by it are included,
    too.
    """
    kept: set[Any] = set()
    known: dict[Any, frozenset[Any]] = {}
    for function in program.functions.values():
        for operation in operations_of(function):
            inputs = operation.get_flattened_inputs()
            if operation.op_type in SHIFTED and _vanishes(operation.epsilon):
                before = {operation}
                after = frozenset(_multiplied(operation.outputs[0]) | before)
            elif operation.op_type == "batch_norm":
                before = set()
                after = frozenset({operation} if _spreads_vanish(operation) else ())
            elif operation.op_type in GUARDS | COMPARISONS and any(map(_vanishes, inputs)):
                guarded = inputs if operation.op_type in COMPARISONS else operation.outputs
                before = {operation}
                sums = _sums_of(operation, known) if operation.op_type in SUMS else set()
                after = frozenset[Any](sums).union(*(_until_divided(var, known) for var in guarded))
                after = after.union(*(_until_divided(each.outputs[0], known) for each in sums))
                after = after.union(*(_divided_by_own(each, operation) for each in after))
            elif operation.op_type in BOUNDS and any(map(_is_below_logarithms, inputs)):
                before = _logarithms(operation)
                after = frozenset({operation} if before else ())
            elif operation.op_type in PICKS and (zero_checks := _checks_for_zero(operation)):
                before = _since_divided(operation)
                before |= zero_checks if before else set()
                after = frozenset({operation, *_multiplied(operation.outputs[0])}) if before else frozenset()
            elif operation.op_type in PICKS and any(map(_bounds_nothing, inputs)):
                before = _since_divided(operation)
                after = frozenset({operation, *_multiplied(operation.outputs[0])}) if before else frozenset()
            else:
                continue
            if after:
                kept |= before | after
                for each in before:
                    _add_makers(each, kept)
    return frozenset(operation.name for operation in kept)


def _vanishes(var: Any) -> bool:
    """Whether a variable is a constant other than zero that float16 rounds to zero."""
    if var is None or var.val is None or np.asarray(var.val).dtype != np.float32:
        return False
    numbers = np.asarray(var.val)
    with np.errstate(over="ignore"):
        return bool(numbers.any() and not numbers.astype(np.float16).any())


def _spreads_vanish(operation: Any) -> bool:
    """Whether the variance plus ``epsilon`` of some channel is zero in float16 and positive in float32."""
    epsilon = np.float32(operation.epsilon.val)
    variances = np.asarray(operation.variance.val, np.float32)
    with np.errstate(over="ignore"):
        stored = variances.astype(np.float16) + epsilon.astype(np.float16)
    return bool(np.any((stored == 0) & (variances + epsilon > 0)))


def _bounds_nothing(var: Any) -> bool:
    """Whether a variable is a constant beyond LARGEST_RECIPROCAL, which quotients do not reach in float16."""
    if var.val is None or np.asarray(var.val).dtype != np.float32:
        return False
    return bool(np.any(np.abs(var.val) > LARGEST_RECIPROCAL))


def _is_below_logarithms(var: Any) -> bool:
    """Whether a variable is a constant below the logarithm of float16's smallest positive number."""
    if var.val is None or np.asarray(var.val).dtype != np.float32:
        return False
    return bool(np.any(var.val < LEAST_LOGARITHM))


def _logarithms(operation: Any) -> set[Any]:
    """Returns the logarithms that an operation bounds, and the operations between them and the bound."""
    found: set[Any] = set()
    for var in operation.get_flattened_inputs():
        before, path = _before_moves(var)
        if before is not None and before.op_type == "log":
            found |= {before, *path}
    return found


def _before_moves(var: Any) -> tuple[Any, set[Any]]:
    """Returns the operation that computes a variable's numbers, or None, and the operations after it that move them."""
    before = var.op
    path: set[Any] = set()
    while before is not None and before.op_type in MOVES | {"logical_not"} and "x" in before.inputs:
        path.add(before)
        before = before.x.op
    return before, path


def _checks_for_zero(operation: Any) -> set[Any]:
    """Returns the comparison with zero that is the condition of a ``select``; an empty set for any other operation."""
    if operation.op_type != "select":
        return set()
    checked, _ = _before_moves(operation.cond)
    if checked is None or checked.op_type not in COMPARISONS:
        return set()
    limits = [var.val for var in (checked.x, checked.y) if var.val is not None]
    return {checked} if any(np.asarray(limit).dtype == np.float32 and not np.any(limit) for limit in limits) else set()


def _until_divided(var: Any, known: dict[Any, frozenset[Any]]) -> frozenset[Any]:
    """The operations that lead from a variable to a division by it or to its logarithm; empty if there is neither."""
    if var not in known:
        found: set[Any] = set()
        for reader in var.child_ops:
            if _inverts(reader, var):
                found |= {reader, *_multiplied(reader.outputs[0])}
            elif reader.op_type == "log" or (reader.op_type == "real_div" and reader.y is var):
                found.add(reader)
            elif reader.op_type in CARRIES or (reader.op_type == "real_div" and reader.y.val is not None):
                after = frozenset[Any]().union(*(_until_divided(result, known) for result in reader.outputs))
                found |= {reader, *after} if after else after
        known[var] = frozenset(found)
    return known[var]


def _sums_of(guard: Any, known: dict[Any, frozenset[Any]]) -> set[Any]:
    """The sums that a guard's result is part of, as in ``(x + 1e-8) + y``, if something divides by them."""
    leads: dict[Any, bool] = {}

    def leads_to_division(sum_: Any) -> bool:
        if sum_ not in leads:
            further = [leads_to_division(each) for each in _next_sums(sum_)]
            leads[sum_] = any(further) or bool(_until_divided(sum_.outputs[0], known))
        return leads[sum_]

    leads_to_division(guard)
    return {sum_ for sum_, is_led in leads.items() if is_led and sum_ is not guard}


def _next_sums(operation: Any) -> list[Any]:
    """The sums of an operation's result and of another variable."""
    readers = operation.outputs[0].child_ops
    return [each for each in readers if each.op_type in SUMS and each.x.val is None and each.y.val is None]


def _divided_by_own(division: Any, guard: Any) -> set[Any]:
    """The operations from a guard to the numerator of a division by its result: ``sin(x + 1e-8) / (x + 1e-8)``."""
    if division.op_type != "real_div":
        return set()
    leads: dict[Any, bool] = {}

    def comes_from_guard(var: Any) -> bool:
        maker = var.op
        if maker is None or maker.op_type not in CARRIES:
            return maker is guard
        if maker not in leads:
            leads[maker] = False
            inputs = [comes_from_guard(each) for each in maker.get_flattened_inputs()]
            leads[maker] = any(inputs)
        return leads[maker]

    comes_from_guard(division.x)
    return {maker for maker, is_led in leads.items() if is_led}


def _since_divided(operation: Any) -> set[Any]:
    """The divisions whose quotients an operation bounds, and the operations between; empty if it bounds no quotient.

    Masks such as -1e9 are no bounds: among the inputs of a ``select``, only reciprocals count.
    """
    found: set[Any] = set()
    for var in operation.get_flattened_inputs():
        before, path = _before_moves(var)
        if before is not None and (_is_reciprocal(before) or (operation.op_type in BOUNDS and _divides(before))):
            found |= {before, *path}
    return found


def _divides(operation: Any) -> bool:
    return operation.op_type == "real_div" and operation.y.val is None


def _is_reciprocal(operation: Any) -> bool:
    return any(_inverts(operation, var) for var in operation.get_flattened_inputs() if var.val is None)


def _inverts(operation: Any, var: Any) -> bool:
    if operation.op_type == "real_div":
        return operation.y is var and operation.x.val is not None
    if operation.op_type == "pow":
        return operation.x is var and operation.y.val is not None and bool(np.all(operation.y.val < 0))
    return operation.op_type in INVERTS


def _multiplied(var: Any) -> set[Any]:
    """The operations from a reciprocal to the products with it."""
    found: set[Any] = set()
    waiting = [*var.child_ops]
    while waiting:
        reader = waiting.pop()
        if reader.op_type not in MOVES | PICKS | {"mul"} or reader in found:
            continue
        found.add(reader)
        if reader.op_type != "mul":
            waiting += [each for result in reader.outputs for each in result.child_ops]
    return found


def _add_makers(operation: Any, kept: set[Any]) -> None:
    """Adds the operations that compute an operation's inputs, going back as long as they are in :data:`SMALL`."""
    for var in operation.get_flattened_inputs():
        if var.op is not None and var.op.op_type in SMALL and var.op not in kept:
            kept.add(var.op)
            _add_makers(var.op, kept)
