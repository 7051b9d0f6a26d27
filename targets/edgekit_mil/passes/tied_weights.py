"""Stores weights once that a program holds twice: also transposed, or also in decompressed form.

A language model reads its embeddings by rows and multiplies by their transpose at its end. A quantized one gathers
8-bit rows before it decompresses them, and decompresses the matrix as a whole for the product.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, block_context_manager, mb, types
from edgekit_mil.passes.weight_compression import LEAST_ELEMENTS

DECOMPRESSION = "constexpr_affine_dequantize"


def multiply_by_transposed(program: Program) -> None:
    """Let matrix products read a weight transposed if the program also holds the transposed weight, in place."""
    for function in program.functions.values():
        held = {_identity(var.val) for var in _weights(function)}
        _turn_products(function, held)


def store_equal_weights_once(program: Program) -> None:
    """Let equal weights share one place in the weight file, in place; the operations that use them do not change."""
    for function in program.functions.values():
        for var in _weights(function):
            if var.op.weight_id is None:  # NumPy's type is the same for 4-bit and 8-bit integers
                var.op.weight_id = f"{types.builtin_to_string(var.dtype)} {_identity(var.val)}"


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _turn_products(block: Any, held: set[str]) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _turn_products(inner, held)
        if operation.op_type != "matmul" or operation.y.rank != 2 or operation.x.rank < 2:
            continue
        source = operation.y.op
        if source is None or source.op_type not in ("const", DECOMPRESSION):
            continue
        stored = (source.outputs[0] if source.op_type == "const" else source.quantized_data).val
        if stored.size < LEAST_ELEMENTS or _identity(stored.T) not in held or np.array_equal(stored, stored.T):
            continue
        name = operation.outputs[0].name
        product = mb.matmul(
            x=operation.x,
            y=_transposed(source, operation),
            transpose_x=operation.transpose_x,
            transpose_y=not operation.transpose_y.val,
            before_op=operation,
            name=name,
        )
        # forced: coremltools forbids replacing results of decompressed weights
        block.replace_uses_of_var_after_op(
            anchor_op=operation, old_var=operation.outputs[0], new_var=product, force_replace=True
        )
        block.remove_ops([operation])
        held.discard(_identity(stored))  # if two products hold each other's transposed weight, only one of them changes


def _transposed(source: Any, before: Any) -> Any:
    """A constant, or the operation that decompresses one, with its two axes in the other order."""
    if source.op_type == "const":
        return mb.const(val=np.ascontiguousarray(source.outputs[0].val.T), before_op=before)
    return mb.constexpr_affine_dequantize(
        quantized_data=np.ascontiguousarray(source.quantized_data.val.T),
        zero_point=source.zero_point.val,
        scale=source.scale.val,
        axis=np.int32(1 - int(source.axis.val) % 2),
        before_op=before,
    )


def _weights(block: Any) -> Iterator[Any]:
    """The large constants of a block and of all blocks in it, those inside decompressions too."""
    for operation in block.operations:
        for inner in operation.blocks:
            yield from _weights(inner)
        given = [operation.outputs[0]] if operation.op_type == "const" else []
        if operation.op_type.startswith("constexpr_"):
            given = [var for var in operation.inputs.values() if var.op is not None and var.op.op_type == "const"]
        for var in given:
            if isinstance(var.val, np.ndarray) and var.val.size >= LEAST_ELEMENTS:
                yield var


def _identity(array: np.ndarray) -> str:
    """Returns a text that only equal arrays share."""
    digest = hashlib.sha256(np.ascontiguousarray(array).view(np.uint8).data).hexdigest()
    return f"{array.dtype}{list(array.shape)}{digest}"
