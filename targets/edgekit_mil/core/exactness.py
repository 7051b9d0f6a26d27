"""Operations that float16 would make wrong rather than imprecise: they stay in float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, types

EXACT = "exact_integers"
"""Prefix of the names of operations on integers beyond 2 ** 11."""

SMALLEST_NORMAL_HALF = float(np.finfo(np.float16).tiny)

CARRIES = frozenset(
    {
        "abs", "add", "ceil", "clip", "concat", "expand_dims", "floor", "floor_div", "gather", "identity", "maximum",
        "minimum", "mod", "mul", "real_div", "relu", "reshape", "round", "select", "sign", "slice_by_index",
        "slice_by_size", "split", "sqrt", "square", "squeeze", "stack", "sub", "tile", "transpose",
    }
)  # fmt: skip
"""Operations that positions and counts pass through while they are stored as floats."""
MOVES = frozenset(
    {
        "concat", "expand_dims", "gather", "gather_along_axis", "gather_nd", "identity", "reshape", "reverse",
        "slice_by_index", "slice_by_size", "split", "squeeze", "stack", "tile", "transpose",
    }
)  # fmt: skip
"""Operations whose results are elements of their inputs."""
SUPPRESSION = "non_maximum_suppression"
COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})


def integers_in_floats(program: Program) -> frozenset[str]:
    """Names of operations that compute with integers stored as floats, and whose results decide something.

    Such operations compute from integers alone, and their results are converted back to integers or compared: positions
    divided by a stride, counts scaled and rounded. float16 holds whole numbers up to 2048, and its rounding would lead
    to another position.
    """
    operations = [op for function in program.functions.values() for op in operations_of(function)]
    made: set[Any] = set()
    """Float variables that are computed from integers alone."""
    for operation in operations:
        enters = operation.op_type == "cast" and types.is_int(operation.x.dtype)
        if enters or (operation.op_type in CARRIES and _is_made(operation, made)):
            made.update(operation.outputs)
    kept: set[Any] = set()
    for operation in reversed(operations):
        if operation.op_type in COMPARISONS:
            decides = True
        elif operation.op_type in CARRIES:
            decides = any(
                reader in kept or (reader.op_type == "cast" and types.is_int(reader.outputs[0].dtype))
                for var in operation.outputs
                for reader in var.child_ops
            )
        else:
            decides = False
        if decides and _is_made(operation, made):
            kept.add(operation)
    return frozenset(operation.name for operation in kept)


def compared_inputs(program: Program) -> frozenset[str]:
    """Names of the comparisons of program inputs or looked-up constants, and of the operations that move these there.

    Nothing is computed before the comparison, so its result should be exact. An input that float16 rounds to a decision
    tree's threshold would take the other branch.
    """
    operations = [op for function in program.functions.values() for op in operations_of(function)]
    given: set[Any] = {var for function in program.functions.values() for var in function.inputs.values()}
    kept: set[Any] = set()
    for operation in operations:
        if operation.op_type in MOVES and (_is_made(operation, given) or _looks_up(operation)):
            given.update(operation.outputs)
    for operation in reversed(operations):
        if not (_is_made(operation, given) or (operation.op_type in MOVES and _looks_up(operation))):
            continue
        readers = [reader for var in operation.outputs for reader in var.child_ops]
        if operation.op_type in COMPARISONS or (operation.op_type in MOVES and any(one in kept for one in readers)):
            kept.add(operation)
    return frozenset(operation.name for operation in kept)


def placed_boxes(program: Program) -> frozenset[str]:
    """Names of the non-maximum suppressions, and of the arithmetic that computes the positions of their boxes.

    Detectors shift the boxes of each class by more than the size of a picture, so that suppression compares boxes of
    the same class only (``batched_nms`` of torchvision): at class 79 of a picture of 640 pixels float16 holds only
    every 32nd pixel.
    """
    kept: set[Any] = set()
    for operation in reversed([op for function in program.functions.values() for op in operations_of(function)]):
        readers = [(reader, var) for var in operation.outputs for reader in var.child_ops]
        places = operation.op_type in CARRIES - {"gather"} and any(
            reader in kept and not (reader.op_type == SUPPRESSION and var is reader.scores) for reader, var in readers
        )
        if operation.op_type == SUPPRESSION or places:
            kept.add(operation)
    return frozenset(operation.name for operation in kept)


def iterations_until_settled(program: Program) -> frozenset[str]:
    """Names of the operations inside loops that go on until floats compare in some way.

    Such an iteration approaches a solution and stops at a bound of its error. The bound is chosen for float32; rounding
    to float16 is larger than what the steps change, and squares of small numbers become zeros that steps divide by.
    """
    kept: set[str] = set()
    for function in program.functions.values():
        for loop in operations_of(function):
            if loop.op_type == "while_loop" and any(map(_compares_floats, _bools_carried(loop))):
                kept.update(operation.name for block in loop.blocks for operation in operations_of(block))
    return frozenset(kept)


def _bools_carried(loop: Any) -> list[Any]:
    """Returns the variables of type bool that the condition of a loop and its body compute."""
    return [var for block in loop.blocks for var in block.outputs if types.is_bool(var.dtype)]


def _compares_floats(var: Any) -> bool:
    """Whether a variable depends on a comparison of floats."""
    waiting, seen = [var], set()
    while waiting:
        operation = waiting.pop().op
        if operation is None or operation in seen:
            continue
        seen.add(operation)
        inputs = operation.get_flattened_inputs()
        if operation.op_type in COMPARISONS and any(types.is_float(each.dtype) for each in inputs):
            return True
        waiting += inputs
    return False


def _looks_up(operation: Any) -> bool:
    """Whether an operation takes elements of constants at positions that are computed."""
    inputs = operation.get_flattened_inputs()
    floats = [var for var in inputs if types.is_float(var.dtype)]
    return bool(floats) and all(var.val is not None for var in floats) and any(var.val is None for var in inputs)


def _is_made(operation: Any, made: set[Any]) -> bool:
    """Whether each float input of an operation is in ``made`` or a constant, and at least one is not a constant."""
    floats = [var for var in operation.get_flattened_inputs() if types.is_float(var.dtype)]
    computed = [var for var in floats if var.op is None or var.op.op_type != "const"]
    return bool(computed) and all(var in made for var in computed)


def operations_of(block: Any) -> Iterator[Any]:
    """The operations of a block; the operations in blocks of an operation come before it."""
    for operation in block.operations:
        for inner in operation.blocks:
            yield from operations_of(inner)
        yield operation


def stays_exact(operation: Any) -> bool:
    """Whether an operation has to stay in float32.

    True for an operation whose name begins with :data:`EXACT`, for one that holds weights only of such operations, and
    for a quantization whose scale is below float16's normal numbers, so that float16 has few bits of it or none.
    """
    if operation.op_type.startswith("constexpr_"):
        readers = [reader for var in operation.outputs for reader in var.child_ops]
        return bool(readers) and all(map(stays_exact, readers))
    if operation.op_type in ("quantize", "dequantize"):
        return bool(np.min(operation.scale.val) < SMALLEST_NORMAL_HALF)
    return str(operation.name).startswith(EXACT)
