"""Drops a quantization that is repeated after operations that only move or compare the numbers.

Quantizers put a pair of ``quantize`` and ``dequantize`` before every operation. Around pooling and reshaping the first
of two equal pairs changes nothing: rounding to the grid commutes with taking maxima and with moving elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program

COMMUTING = frozenset({"max_pool", "reshape", "transpose", "expand_dims", "squeeze"})
"""Operations on ``x`` alone that move its elements, or choose among them by order."""


def drop_repeated_quantization(program: Program) -> None:
    """Bypass each pair that is followed by an equal one, in place; the operations themselves are removed as dead code.

    The last pair stays: it stands before the operation that may compute in integers.
    """
    for function in program.functions.values():
        for operation in list(function.operations):
            if operation.op_type == "quantize":
                _bypass_earlier(function, operation)


def _bypass_earlier(function: Any, later: Any) -> None:
    source = later.input
    reader = later
    while source.op is not None and source.op.op_type in COMMUTING and _read_once(function, source):
        reader, source = source.op, source.op.x
    producer = source.op
    if reader is later or producer is None or producer.op_type != "dequantize" or not _read_once(function, source):
        return
    earlier = producer.input.op
    if earlier is None or earlier.op_type != "quantize" or not _same_grid(earlier, later, producer):
        return
    function.replace_uses_of_var_after_op(anchor_op=producer, old_var=source, new_var=earlier.input)


def _read_once(function: Any, var: Any) -> bool:
    return len(var.child_ops) == 1 and var not in function.outputs


def _same_grid(earlier: Any, later: Any, inverse: Any) -> bool:
    """Whether three operations have one scale and zero point for the whole tensor, the same in all of them."""
    if later.axis is not None or earlier.output_dtype.val != later.output_dtype.val:
        return False
    return all(
        np.array_equal(_value(getattr(earlier, name)), _value(getattr(other, name)))
        for other in (later, inverse)
        for name in ("scale", "zero_point")
    )


def _value(parameter: Any) -> Any:
    return 0 if parameter is None else parameter.val
