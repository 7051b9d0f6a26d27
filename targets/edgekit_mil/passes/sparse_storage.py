"""Weights that are mostly zeros: stored as one bit for each element and the nonzero numbers, without loss.

Filter banks and other tables of signal processing are mostly zeros, and so are pruned weights. The form is that of Core
ML's operation ``constexpr_sparse_to_dense``, of iOS 16 and, with a mask of 1-bit integers, of iOS 18. From iOS 18 on
8-bit integers are stored sparsely, too: ``constexpr_sparse_blockwise_shift_scale`` scales the nonzero ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, Var, block_context_manager, ct, mb, types
from edgekit_mil.passes.pipeline import run
from edgekit_mil.passes.weight_compression import LEAST_ELEMENTS, weight_axes

MOST_OF_DENSE = 0.5
"""Largest share of the dense form's room that sparse storage may take, since it costs time to spread the numbers."""


def store_sparse(program: Program, target_name: str) -> None:
    """Replace weights that are mostly zeros by their sparse form, in place.

    Args:
        program: The program, its weights in the types that it computes in.
        target_name: The deployment target by coremltools' name.
    """
    target = ct.target[target_name]
    for function in program.functions.values():
        _replace(function, target)
    run(program, "common::dead_code_elimination")
    program.validate()  # the passes before this one, too


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _replace(block: Any, target: ct.target) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _replace(inner, target)
        if operation.outputs[0] in block.outputs:
            continue
        if operation.op_type == "constexpr_affine_dequantize" and saves_room(operation, target):
            _replace_levels(block, operation)
        if operation.op_type != "const":
            continue
        weight = operation.outputs[0]
        if weight_axes(weight) is None or weight.val.size < LEAST_ELEMENTS:
            continue
        present = _present(weight)
        if not present.any() or _room(present, weight.val.itemsize) > MOST_OF_DENSE * weight.val.nbytes:
            continue
        spread = _stored(weight, present, target)
        if block.try_replace_uses_of_var_after_op(anchor_op=spread.op, old_var=weight, new_var=spread):
            block.remove_ops([operation])


def saves_room(operation: Any, target: ct.target) -> bool:
    """Whether 8-bit weights, as ``constexpr_affine_dequantize`` has them, are stored sparsely.

    They are stored sparsely if that takes half of the room or less. Palettes of the values that occur may take even
    less (:mod:`edgekit_mil.passes.few_levels`).
    """
    levels = np.asarray(operation.quantized_data.val)
    if target < ct.target.iOS18 or levels.dtype != np.int8 or np.any(operation.zero_point.val):
        return False
    present = levels != 0
    return levels.size >= LEAST_ELEMENTS and present.sum() > 0 and sparse_bytes(levels) <= MOST_OF_DENSE * levels.size


def sparse_bytes(levels: np.ndarray) -> float:
    """Bytes that 8-bit integers take when stored as a mask and the nonzero numbers."""
    return _room(levels != 0, levels.itemsize)


def _room(present: np.ndarray, width: int) -> float:
    return present.size / 8 + float(present.sum()) * width


def _replace_levels(block: Any, operation: Any) -> None:
    levels, scale = np.asarray(operation.quantized_data.val), np.asarray(operation.scale.val)
    axis, old = int(operation.axis.val) % levels.ndim, operation.outputs[0]
    each = [size if at == axis and scale.ndim else 1 for at, size in enumerate(levels.shape)]
    mask, numbers = mb.constexpr_sparse_blockwise_shift_scale(
        data_mask=(levels != 0).astype(types.np_uint1_dtype),
        nonzero_data=levels[levels != 0],
        scale=scale.reshape(each),
        before_op=operation,
        name=f"{operation.name}_numbers",
    )
    new = mb.constexpr_sparse_to_dense(
        nonzero_data=numbers, mask=mask, before_op=operation, name=f"{operation.name}_weights"
    )
    # forced: coremltools forbids replacing what decompresses weights, so that they are not stored as floats again
    block.replace_uses_of_var_after_op(anchor_op=new.op, old_var=old, new_var=new, force_replace=True)
    block.remove_ops([operation])


def _present(weight: Var) -> np.ndarray:
    """Returns as bool which elements have to be stored.

    A negative zero, as masks of pruning make it, has to be stored if elements are gathered. In a sum of products it
    makes no difference.
    """
    weights = weight.val
    handed_out = any(user.op_type == "gather" for user in weight.child_ops)
    return np.asarray((weights != 0) | (np.signbit(weights) & handed_out))


def _stored(weight: Var, present: np.ndarray, target: ct.target) -> Var:
    numbers = weight.val[present]
    if target < ct.target.iOS18:
        return mb.constexpr_sparse_to_dense(
            nonzero_data=numbers,
            mask=np.packbits(present.reshape(-1), bitorder="little"),
            shape=np.array(present.shape, np.uint32),
            before_op=weight.op,
        )
    return mb.constexpr_sparse_to_dense(
        nonzero_data=numbers, mask=present.astype(types.np_uint1_dtype), before_op=weight.op
    )
