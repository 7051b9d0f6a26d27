"""Finds tensors that loops fill row by row: they stay in the type in which the loop carries them.

coremltools casts what a float16 operation reads and writes, and the variables of a loop are float32. So a tensor with
one row for each turn would be cast as a whole back and forth in every turn, to store one row. The stored numbers are
the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit_mil.core.mil import Program

_FILLING = frozenset({"scatter", "scatter_along_axis", "scatter_nd"})
_REPLACES = "update"


def filling_operations(program: Program) -> frozenset[str]:
    """Names of operations that replace elements of a loop's variable and whose result is the variable's next value."""
    loops = (loop for function in program.functions.values() for loop in _loops(function))
    return frozenset(name for loop in loops for name in _filling(loop))


def _loops(block: Any) -> Iterator[Any]:
    for operation in block.operations:
        if operation.op_type == "while_loop":
            yield operation
        for inner in operation.blocks:
            yield from _loops(inner)


def _filling(loop: Any) -> Iterator[str]:
    _, body = loop.blocks
    for variable, following in zip(body.inputs, body.outputs, strict=True):
        names = []
        while following is not variable and following.op is not None and following.op.op_type in _FILLING:
            operation = following.op
            if operation.mode.val != _REPLACES:
                break
            names.append(operation.name)
            following = operation.data
        if following is variable:
            yield from names
