"""The patterns of nodes that simplification replaces by fewer or plainer ones; each can be applied alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
from onnxscript import rewriter
from onnxscript.rewriter.rules import common

Rule = Any
"""A rule of onnxscript's rewriter, which has no types."""


def fuse(graph_model: ir.Model, names: Sequence[str] | None = None) -> None:
    """Applies patterns to a graph, in place.

    Args:
        graph_model: The graph.
        names: Which of :data:`PATTERNS`; None for all.
    """
    rewriter.rewrite(graph_model, [rule for name in names or PATTERNS for rule in PATTERNS[name]])


def _without(operator: str, neutral: float, *, either: bool = False) -> Sequence[Rule]:
    """Takes out an operator one of whose operands changes nothing.

    onnxscript has such rules, and they match a constant that is near: ``x + 1e-10``, on which a logarithm may depend.

    Args:
        operator: Of two operands.
        neutral: The second operand.
        either: Whether it may be the first one as well.
    """

    def second(op: Any, x: Any, number: Any) -> Any:
        return getattr(op, operator)(x, number)

    def first(op: Any, x: Any, number: Any) -> Any:
        return getattr(op, operator)(number, x)

    return [
        rewriter.RewriteRule(pattern, _identity, _is_exactly(neutral)) for pattern in ((second, first)[: 1 + either])
    ]


def _identity(op: Any, x: Any, **_: Any) -> Any:
    return op.Identity(x)


def _is_exactly(neutral: float) -> Callable[..., bool]:
    def condition(context: Any, number: ir.Value | None, **_: Any) -> bool:
        del context
        tensor = ir.convenience.get_const_tensor(number) if number is not None else None
        return tensor is not None and len(tensor.shape) == 0 and tensor.numpy().item() == neutral

    return condition


PATTERNS: Mapping[str, Sequence[Rule]] = {
    "multiply by 1": _without("Mul", 1, either=True),
    "add 0": _without("Add", 0, either=True),
    "subtract 0": _without("Sub", 0),
    "divide by 1": _without("Div", 1),
    "dropout that drops nothing": [common.dropout_zero_rule, common.dropout_inference_rule],
    "reshape around a matrix product": [
        common.two_reshapes_matmul_reshape_rule,
        common.one_reshape_matmul_reshape_rule,
    ],
    "cast of a constant shape": [
        common.cast_constant_of_shape_rule,
        common.cast_constant_of_shape_without_value_rule,
    ],
    "slice that takes all": [common.collapse_slice_rule, common.collapse_slice2_rule],
    "shape of a reshape": [common.materialize_reshape_shape_rule],
    "minimum and maximum": [common.min_min_rule, common.max_max_rule, common.min_max_rule, common.max_min_rule],
    "clip and relu": [
        common.successive_clip_relu_rule,
        common.successive_relu_clip_rule,
        common.successive_relu_rule,
        common.successive_clip_rule,
    ],
    "cast after cast": [common.cast_cast_rule],
    "cast to the same type": [common.no_op_cast_rule],
    "expand to the same shape": [common.no_op_expand_rule],
    "flatten and reshape": [common.flatten_to_reshape_rule, common.reshape_reshape_rule],
    "two slices that split": [common.slice_split_rule],
    "transpose": [common.no_op_transpose_rule, common.transpose_transpose_rule],
    "unsqueeze after unsqueeze": [common.unsqueeze_unsqueeze_rule],
    "reshape after squeeze": [common.squeeze_reshape_1d_rule],
    "scatter over everything": [common.no_op_dynamic_scatter_nd_rule, common.no_op_static_scatter_nd_rule],
    "padding of a convolution": [
        common.normalize_pad_format_conv_rule,
        common.normalize_pad_format_conv_integer_rule,
        common.fuse_pad_into_conv_rule,
        common.fuse_pad_into_conv_integer_rule,
    ],
    "batch normalization": [
        common.fuse_batchnorm_into_conv_rule,
        common.fuse_batchnorm_into_conv_transpose_rule,
        common.fuse_batchnorm_into_gemm_rule,
    ],
    "bias of zeros": [
        common.remove_optional_bias_from_conv_rule,
        common.remove_optional_bias_from_conv_transpose_rule,
        common.remove_optional_bias_from_qlinear_conv_rule,
        common.remove_optional_bias_from_gemm_rule,
    ],
}
"""The patterns by what a record calls them. All constants in them are matched exactly: what is near is not the same."""
