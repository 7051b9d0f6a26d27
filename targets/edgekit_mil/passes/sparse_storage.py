"""Weights that are mostly zeros: a bit for each element and the numbers that are not zero, without loss.

Filter banks and other tables of signal processing are of that kind. The form is that of Core ML's operation
``constexpr_sparse_to_dense``, of iOS 16 and, with a mask of 1-bit integers, of iOS 18.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, Var, block_context_manager, ct, mb, types
from edgekit_mil.passes.weight_compression import LEAST_ELEMENTS, weight_axes

MOST_OF_DENSE = 0.5
"""What sparse storage may take of the dense form's room, for what it costs to spread the numbers out."""


def store_sparse(program: Program, target_name: str) -> None:
    """Replace weights that are mostly zeros by their sparse form, in place.

    Args:
        program: The program, its weights in the types that it computes in.
        target_name: The deployment target by coremltools' name.
    """
    target = ct.target[target_name]
    for function in program.functions.values():
        _replace(function, target)
    program.validate()


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _replace(block: Any, target: ct.target) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _replace(inner, target)
        if operation.op_type != "const" or operation.outputs[0] in block.outputs:
            continue
        weight = operation.outputs[0]
        if weight_axes(weight) is None or weight.val.size < LEAST_ELEMENTS:
            continue
        present = _present(weight.val)
        room = present.size / 8 + present.sum() * weight.val.itemsize
        if not present.any() or room > MOST_OF_DENSE * weight.val.nbytes:
            continue
        spread = _stored(weight, present, target)
        if block.try_replace_uses_of_var_after_op(anchor_op=spread.op, old_var=weight, new_var=spread):
            block.remove_ops([operation])


def _present(weights: np.ndarray) -> np.ndarray:
    """bool: which elements have to be stored. A zero with a sign is one of them."""
    return np.asarray((weights != 0) | np.signbit(weights))


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
