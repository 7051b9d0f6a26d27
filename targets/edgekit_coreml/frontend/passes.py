"""Which of coremltools' graph passes a program goes through, and why each.

The default pipeline has over eighty, some of which change types behind the caller's back (``add_int16_cast``) or
evaluate constants with MIL's value inference, which is no interpreter. The graph arrives folded by ONNX's own
semantics, so what is left to do is to drop what does nothing, fuse what Core ML has one operation for, and choose the
precision.
"""

from __future__ import annotations

from collections.abc import Callable

from edgekit_coreml.frontend.mil import PASS_REGISTRY, Program, ct

FUSIONS = (
    "common::noop_elimination",
    "common::fuse_matmul_weight_bias",
    "common::fuse_linear_bias",
    "common::fuse_gelu_tanh_approximation",
    "common::fuse_gelu_exact",
    "common::fuse_conv_scale",
    "common::fuse_conv_bias",
    "common::fuse_layernorm_or_instancenorm",
    "common::fuse_elementwise_to_batchnorm",
    "common::fuse_conv_batchnorm",
    "common::merge_consecutive_transposes",
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

OperationFilter = Callable[[object], bool]


def optimize(program: Program, half: OperationFilter | None) -> None:
    """Run the passes over a program, in place.

    Args:
        program: The program as lowered, in float32.
        half: Says of an operation whether it computes in float16; None keeps all of them in float32.
    """
    run(program, "common::dead_code_elimination", *FUSIONS)
    if half is not None:
        ct.transform.FP16ComputePrecision(op_selector=half).apply(program)
    run(program, *CLEANUP)


def run(program: Program, *names: str) -> None:
    """Run passes by name; the program is validated after each."""
    for name in names:
        graph_pass = PASS_REGISTRY[name]
        graph_pass.set_options(None)
        graph_pass(program)
        program.validate()
