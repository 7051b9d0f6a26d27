"""The patterns of nodes that simplification replaces by fewer or simpler ones; each can be applied alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import rewriter
from onnxscript.rewriter.rules import common

ALLOWZERO_OPSET = 14
"""The first opset in which a Reshape can declare that its zeros are sizes."""

Rule = Any
"""A rule of onnxscript's rewriter, which has no types."""


def fuse(graph_model: ir.Model, names: Sequence[str] | None = None) -> None:
    """Applies patterns to a graph, in place.

    Args:
        graph_model: The graph.
        names: Which of :data:`PATTERNS`; None for all.
    """
    rewriter.rewrite(graph_model, [rule for name in names or PATTERNS for rule in PATTERNS[name]])
    _register_constants(graph_model)
    if 0 < graph_model.opset_imports.get("", 0) < ALLOWZERO_OPSET:
        _without_allowzero(graph_model.graph)


def _register_constants(graph_model: ir.Model) -> None:
    """Registers constants with unique names in the graph that reads them: rules may give two constants one name.

    Without that, the first of the two is lost. onnxscript names the sizes of a Reshape after its input in one rule, and
    after its output in another.
    """
    for graph in graph_model.graphs():
        taken = set(graph.initializers) | {value.name for node in graph for value in node.outputs}
        for value in [value for node in graph for value in node.inputs if value is not None]:
            if value.const_value is None or value.producer() is not None or value.graph is not None:
                continue
            number = 1
            while value.name in taken:
                value.name = f"{str(value.name).rsplit('_', 1)[0]}_{number}"
                number += 1
            taken.add(value.name)
            graph.register_initializer(value)


def _without_allowzero(graph: ir.Graph) -> None:
    """Removes ``allowzero``, which the rules write in every opset, from Reshapes without zeros."""
    for node in graph.all_nodes():
        if node.op_type == "Reshape" and not node.domain and "allowzero" in node.attributes:
            sizes = ir.convenience.get_const_tensor(node.inputs[1]) if node.inputs[1] is not None else None
            if sizes is not None and 0 not in sizes.numpy():
                node.attributes.pop("allowzero")


def _without(operator: str, neutral: float, *, either: bool = False) -> Sequence[Rule]:
    """Returns rules that remove an operator with one operand that has no effect.

    onnxscript has such rules, but they also match constants that are close: ``x + 1e-10``, on which a logarithm may
    depend.

    Args:
        operator: A binary operator.
        neutral: The number that has no effect as the second operand.
        either: Whether the number also has no effect as the first operand.
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


def _hard_sigmoids() -> Sequence[Rule]:
    """Writes ``clip(x + 3, 0, 6) / 6`` as HardSigmoid, alone and multiplied by ``x`` before the division.

    The latter is the HardSwish of Howard et al., Searching for MobileNetV3 (ICCV 2019), section 5.2, as exporters write
    it for opsets before 14: four passes over the tensor, which become two. ``HardSwish`` itself would need a newer
    opset, and ONNX Runtime splits it into the same two operators.
    """

    def gate(op: Any, x: Any, three: Any, zero: Any, six: Any) -> Any:
        return op.Clip(op.Add(x, three), zero, six)

    def divided(op: Any, x: Any, three: Any, zero: Any, six: Any, last: Any) -> Any:
        return op.Div(gate(op, x, three, zero, six), last)

    def multiplied(op: Any, x: Any, three: Any, zero: Any, six: Any, last: Any) -> Any:
        return op.Mul(gate(op, x, three, zero, six), last)

    def swish_divided(op: Any, x: Any, three: Any, zero: Any, six: Any, last: Any) -> Any:
        return op.Div(op.Mul(x, gate(op, x, three, zero, six)), last)

    def swish_multiplied(op: Any, x: Any, three: Any, zero: Any, six: Any, last: Any) -> Any:
        return op.Mul(op.Mul(x, gate(op, x, three, zero, six)), last)

    def hard_sigmoid(op: Any, x: Any, **_: Any) -> Any:
        return op.HardSigmoid(x, alpha=1 / 6, beta=0.5)

    def hard_swish(op: Any, x: Any, **_: Any) -> Any:
        return op.Mul(x, op.HardSigmoid(x, alpha=1 / 6, beta=0.5))

    def condition(divides: bool) -> Callable[..., bool]:
        numbers = {"three": (3.0,), "zero": (0.0,), "six": (6.0,), "last": (6.0,) if divides else SIXTHS}

        def holds(context: Any, **values: Any) -> bool:
            del context
            return all(_scalar(values[name]) in known for name, known in numbers.items())

        return holds

    return [
        each
        for pattern, result, divides in (
            (swish_divided, hard_swish, True),
            (swish_multiplied, hard_swish, False),
            (divided, hard_sigmoid, True),
            (multiplied, hard_sigmoid, False),
        )
        for each in rewriter.RewriteRule(pattern, result, condition(divides)).commute()
    ]


def _asked_in_double() -> Sequence[Rule]:
    """Tests a float32 directly for infinity and NaN, where PyTorch's exporters convert it to float64 first.

    The conversion does not change the number, and some runtimes have no float64.
    """

    def rule(operator: str) -> Rule:
        def asked(op: Any, x: Any) -> Any:
            wide = op.Cast(x, to=ir.DataType.DOUBLE)
            return getattr(op, operator)(wide, _allow_other_attributes=True, _outputs=["answer"])

        def of_itself(op: Any, x: Any, answer: ir.Value, **_: Any) -> Any:
            node = answer.producer()
            return getattr(op, operator)(x, **({} if node is None else node.attributes))

        def is_single(context: Any, x: ir.Value, **_: Any) -> bool:
            del context
            return x.dtype is ir.DataType.FLOAT

        return rewriter.RewriteRule(asked, of_itself, is_single, remove_nodes=False)

    return [rule("IsInf"), rule("IsNaN")]


def _signed_shifts() -> Sequence[Rule]:
    """Writes a right shift that keeps the sign as the division ``(x - x mod 2ⁿ) / 2ⁿ``, which rounds down.

    ONNX shifts only unsigned numbers, without the sign. PyTorch's exporter adds it: it sets the highest bits of the
    shifted number where the original is negative. No 32-bit integer holds the constant for that.
    """

    def rule(signed: ir.DataType, unsigned: ir.DataType) -> Rule:
        def shifted(op: Any, x: Any, zero: Any, places: Any, mask: Any) -> Any:
            bits = op.BitShift(op.Cast(x, to=unsigned), places, direction="RIGHT")
            filled = op.Cast(op.BitwiseOr(bits, mask), to=signed)
            return op.Where(op.Less(x, zero), filled, op.Cast(bits, to=signed))

        def divided(op: Any, x: Any, places: ir.Value, **_: Any) -> Any:
            number = np.array(1 << (_whole(places) or 0), signed.numpy())
            power = op.Constant(value=ir.tensor(number))
            return op.Div(op.Sub(x, op.Mod(x, power)), power)

        def keeps_sign(context: Any, x: ir.Value, zero: ir.Value, places: ir.Value, mask: ir.Value, **_: Any) -> bool:
            del context
            width, count = unsigned.bitwidth, _whole(places)
            if x.dtype is not signed or _whole(zero) != 0 or count is None or not 0 <= count < width - 1:
                return False
            return _whole(mask) == (1 << width) - (1 << (width - count))

        return rewriter.RewriteRule(shifted, divided, keeps_sign, remove_nodes=False)

    return [rule(ir.DataType.INT32, ir.DataType.UINT32), rule(ir.DataType.INT64, ir.DataType.UINT64)]


def _whole(value: ir.Value) -> int | None:
    """Returns the number of a constant integer of shape [], or None for other values."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or len(tensor.shape) > 0 or not tensor.dtype.is_integer():
        return None
    return int(tensor.numpy().item())


def _scalar(value: ir.Value | None) -> float | None:
    """Returns the number of a constant of shape [] or [1], or None for other values."""
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    if tensor is None or tensor.size != 1 or len(tensor.shape) > 1:
        return None
    return float(tensor.numpy().item())


SIXTHS = tuple(float(kind(1 / 6)) for kind in (np.float16, np.float32, np.float64))
"""The numbers that exporters write for 1/6."""
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
    "scale and shift behind a convolution": common.conv_affine_fusion_rule.commute(),
    "scale and shift before a convolution": common.affine_conv_fusion_rule.commute(),
    "hard sigmoid in parts": _hard_sigmoids(),
    "infinity of a cast to float64": _asked_in_double(),
    "right shift with the sign": _signed_shifts(),
    "bias of zeros": [
        common.remove_optional_bias_from_conv_rule,
        common.remove_optional_bias_from_conv_transpose_rule,
        common.remove_optional_bias_from_qlinear_conv_rule,
        common.remove_optional_bias_from_gemm_rule,
    ],
}
"""The patterns by their name in a record.

All constants in them are matched exactly, because a constant that is close is not the same.
"""
