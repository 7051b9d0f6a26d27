"""The graph passes of coremltools that a program goes through, and the reason for each.

The default pipeline has over eighty, some of which change types behind the caller's back (``add_int16_cast``) or
evaluate constants with MIL's value inference, which is no interpreter. The graph arrives folded by ONNX's own
semantics, so the passes only have to drop operations that do nothing, fuse patterns for which Core ML has one
operation, and choose the precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgekit.processes.supervision import tell_step
from edgekit_mil.core.exactness import (
    compared_inputs,
    integers_in_floats,
    iterations_until_settled,
    placed_boxes,
    stays_exact,
)
from edgekit_mil.core.mil import PASS_REGISTRY, Function, Program, block_context_manager, ct, mb
from edgekit_mil.core.zero_guards import guarded_divisions
from edgekit_mil.passes.affine_fusion import fuse_affine_operations
from edgekit_mil.passes.filled_tensors import filling_operations
from edgekit_mil.passes.masking_constants import saturate_casts
from edgekit_mil.passes.repeated_quantization import drop_repeated_quantization
from edgekit_mil.passes.shared_constants import drop_output_copies, share_small_constants
from edgekit_mil.passes.tied_weights import multiply_by_transposed

FUSIONS = (
    "common::fuse_gelu_tanh_approximation",
    "common::fuse_gelu_exact",
    "common::fuse_layernorm_or_instancenorm",
    "common::fuse_elementwise_to_batchnorm",
    "common::merge_consecutive_transposes",
    "common::dead_code_elimination",
    "common::dedup_op_and_var_names",  # so that an operation has the same name in float32 and in float16
)
CLEANUP = (
    "common::dead_code_elimination",
    "common::cast_optimization",
    "common::dead_code_elimination",
    "common::const_deduplication",
    "common::remove_redundant_ops",
    "common::topological_reorder",
    "common::dead_code_elimination",
    "common::dedup_op_and_var_names",
)

OperationFilter = Callable[[Any], bool]

LARGEST_HALF = float(np.finfo(np.float16).max)
SMALLEST_HALF = np.finfo(np.float16).smallest_subnormal
NORMALIZATIONS = frozenset({"instance_norm", "l2_norm", "layer_norm"})
"""Operations that divide by the spread of numbers plus ``epsilon``: 0 / 0 is NaN if all numbers are equal."""


def optimize(program: Program, half: OperationFilter | None) -> None:
    """Run the passes over a program, in place, and validate it once at the end.

    Args:
        program: The program as lowered, in float32.
        half: Whether an operation computes in float16; None keeps all operations in float32.
    """
    drop_output_copies(program)
    drop_repeated_quantization(program)
    run(program, "common::dead_code_elimination", "common::noop_elimination")
    fuse_affine_operations(program)
    multiply_by_transposed(program)
    run(program, *FUSIONS)
    if half is not None:
        kept = integers_in_floats(program) | compared_inputs(program) | placed_boxes(program)
        kept |= filling_operations(program) | guarded_divisions(program) | iterations_until_settled(program)
        masking: set[str] = set()

        def computes_in_half(operation: Any) -> bool:
            if not constants_fit_half(operation):
                masking.add(operation.name)
                return False
            return half(operation) and operation.name not in kept and not stays_exact(operation)

        ct.transform.FP16ComputePrecision(op_selector=computes_in_half).apply(program)
        for function in program.functions.values():
            saturate_casts(function, masking)
            fold_constant_casts(function)
    run(program, *CLEANUP)
    share_small_constants(program, final=half is not None)
    program.validate()


def run(program: Program, *names: str) -> None:
    """Run passes by name, and report progress after each; the program is not validated."""
    with _unprinted():
        _run(program, names)


@contextmanager
def _unprinted() -> Iterator[None]:
    """Keeps functions from formatting as text: a fusion does it for a debug message, a third of the passes' time."""
    text = Function.__str__
    Function.__str__ = object.__repr__
    try:
        yield
    finally:
        Function.__str__ = text


def _run(program: Program, names: Sequence[str]) -> None:
    for name in names:
        graph_pass = PASS_REGISTRY[name]
        graph_pass.set_options(None)
        with warnings.catch_warnings():
            # cast_optimization compares the ranges of types in float32, where float64's overflow
            warnings.filterwarnings("ignore", "overflow encountered in cast", RuntimeWarning)
            # about a pattern with several results, which the pass then leaves unchanged
            warnings.filterwarnings("ignore", "User defined pattern matched", UserWarning)
            graph_pass(program)
        tell_step()


def constants_fit_half(operation: Any) -> bool:
    """Whether no constant input turns infinite in float16 (a mask of -3.4e38 times 0 would become NaN)."""
    for inputs in operation.inputs.values():
        for var in inputs if isinstance(inputs, list | tuple) else [inputs]:
            value = var.op.outputs[0].val if var.op is not None and var.op.op_type == "const" else None
            if isinstance(value, np.ndarray | np.floating) and np.asarray(value).dtype == np.float32:
                finite = np.abs(np.asarray(value)[np.isfinite(value)])
                if finite.size and finite.max() > LARGEST_HALF:
                    return False
    return True


def _is_epsilon(var: Any) -> bool:
    """Whether a variable is the ``epsilon`` of a normalization."""
    return any(each.op_type in NORMALIZATIONS and each.inputs.get("epsilon") is var for each in var.child_ops)


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def fold_constant_casts(block: Any) -> None:
    """Store constants in the type that they are used in; a weight cast at run time would be stored in float32."""
    for operation in list(block.operations):
        for inner in operation.blocks:
            fold_constant_casts(inner)
        if operation.op_type != "cast" or operation.x.op is None or operation.x.op.op_type != "const":
            continue
        old = operation.outputs[0]
        if old.val is None or operation.dtype.val not in ("fp16", "fp32"):
            continue
        dtype = np.float16 if operation.dtype.val == "fp16" else np.float32
        stored = np.asarray(operation.x.val).astype(dtype)
        if dtype is np.float16 and _is_epsilon(old) and stored == 0 and operation.x.val > 0:
            stored = np.asarray(SMALLEST_HALF)
        new = mb.const(val=stored, before_op=operation, name=f"{old.name}_stored")
        if block.try_replace_uses_of_var_after_op(anchor_op=operation, old_var=old, new_var=new):
            block.remove_ops([operation])
