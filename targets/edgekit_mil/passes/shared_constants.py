"""Stores equal small constants once, and under short names.

Every operation has separate constants for strides, pads, flags and types, each with a name twice as long as its value.
In the program of a small network they take more room than quantized weights. Nothing refers to them by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, types

MOST_SHARED_ELEMENTS = 16
"""Larger constants are shared by coremltools, which also moves them to the weight file."""

HALF_SUFFIX = "_cast_fp16"
"""Suffix that coremltools appends to the name of an operation that it converts to float16."""


BETWEEN = frozenset({"quantize", "dequantize", "cast"})
"""Operations whose results are another form of a named tensor."""


def share_small_constants(program: Program, *, final: bool) -> None:
    """Merge equal small constants of a block, and give constants and compressed weights short names, in place.

    Args:
        program: The program.
        final: Whether nobody looks up operations by name any more: then conversions between types get short names, too.
    """
    for function in program.functions.values():
        _share(function, {})
        _rename(function, BETWEEN if final else frozenset())


def drop_output_copies(program: Program) -> None:
    """Remove each ``identity`` that only names an output; the operation before it gets the output's name, in place."""
    for function in program.functions.values():
        inputs = set(function.inputs.values())
        outputs = list(function.outputs)
        for position, output in enumerate(outputs):
            if output.op is None or output.op.op_type != "identity":
                continue
            source = output.op.x
            alone = len(source.child_ops) == 1 and source not in outputs and not output.child_ops
            if alone and source not in inputs and source.op is not None and source.op.op_type != "const":
                outputs[position] = source
                name, output.name = output.name, f"{output.name}_copy"
                source.name = name
                if len(source.op.outputs) == 1:
                    source.op.name = name
        function.set_outputs(outputs)


def _share(block: Any, known: dict[Hashable, Any]) -> None:
    """Replace constants of a block, and of the blocks in it, by equal ones that are defined before them in scope."""
    known = dict(known)
    for operation in list(block.operations):
        for inner in operation.blocks:
            _share(inner, known)
        if operation.op_type != "const":
            continue
        var = operation.outputs[0]
        key = _key(var)
        if key is None or var in block.outputs:
            continue
        if key not in known:
            known[key] = var
            continue
        block.replace_uses_of_var_after_op(
            anchor_op=operation, old_var=var, new_var=known[key], no_check_var_types=True
        )
        block.remove_ops([operation])


def _key(var: Any) -> Hashable:
    """Returns a key that equal constants share; None for a constant that must not be shared."""
    value = var.val
    if isinstance(value, str | bool):
        return type(value).__name__, value
    if not isinstance(value, np.ndarray | np.generic) or value.size > MOST_SHARED_ELEMENTS:
        return None
    return types.builtin_to_string(var.dtype), value.shape, value.tobytes()


def _rename(function: Any, unnamed: frozenset[str]) -> None:
    """Gives short names to what only operations refer to; float16 variables get back their names without the suffix."""
    taken = {var.name for operation in _operations(function) for var in operation.outputs} | set(function.inputs)
    numbers = itertools.count()
    outputs = set(function.outputs)
    for operation in _operations(function):
        if len(operation.outputs) != 1 or operation.outputs[0] in outputs:
            continue
        var = operation.outputs[0]
        kind = operation.op_type
        if kind == "const" or kind.startswith("constexpr_") or kind in unnamed:
            name = next(name for name in map("c{}".format, numbers) if name not in taken)
        else:
            name = var.name.removesuffix(HALF_SUFFIX)
            if name in taken:
                continue
        taken.add(name)
        var.name = operation.name = name


def _operations(block: Any) -> Iterator[Any]:
    """The operations of a block and of all blocks in it."""
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from _operations(inner)
