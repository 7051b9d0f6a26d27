"""Products of matrices that OpenVINO converts into something else."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.operators.departures import Departure, static_sizes
from edgekit.rewrites.quantized_operators import MICROSOFT
from edgekit_openvino.misread.conditions import rank_of

SEVERAL = 2
"""The least number of axes, or of factors, that counts as several."""


def _multiplies_along_unnamed_axes(node: ir.Node, _: int) -> bool:
    """Whether an ellipsis of several axes stands in a product of elements, or in one of three tensors or more.

    OpenVINO 2026.4 takes an equation apart into products of two and unsqueezes one of them for a letter that it lacks.
    """
    before, arrow, after = node.attributes.get_string("equation", "").replace(" ", "").partition("->")
    operands = before.split(",")
    ranks = [rank_of(value) for value in node.inputs]
    unnamed = [
        SEVERAL if rank is None else rank - len(operand.replace("...", ""))
        for operand, rank in zip(operands, ranks, strict=True)
        if "..." in operand
    ]
    if len(operands) == 1 or max(unnamed, default=0) < SEVERAL:
        return False
    adds_up = not arrow or bool(set(before) - set(after) - {","})
    return len(operands) > SEVERAL or not adds_up


def _multiplies_nothing(node: ir.Node, _: int) -> bool:
    """Whether a tensor is known to have no elements."""
    return any(value is not None and 0 in (value.shape or ()) for value in node.inputs)


def _multiplies_several_of_open_sizes(node: ir.Node, _: int) -> bool:
    """Whether three tensors or more are multiplied, one of them with open sizes.

    Where the parts of such a product have five axes, OpenVINO 2026.4 reads numbers that nothing wrote.
    """
    return len(node.inputs) > SEVERAL and any(static_sizes(value) is None for value in node.inputs)


def _names_an_axis_twice_and_no_result(node: ir.Node, _: int) -> bool:
    """Whether an equation without a result has a letter twice in one tensor, such as the trace ``ii``.

    OpenVINO 2026.4 leaves both axes in the result.
    """
    equation = node.attributes.get_string("equation", "").replace(" ", "").replace("...", "")
    return "->" not in equation and any(len(set(operand)) < len(operand) for operand in equation.split(","))


def _rows_come_first(node: ir.Node, _: int) -> bool:
    return any(node.attributes.get_int(f"transBatch{factor}", 0) == 1 for factor in "AB")


def _multiplies_with_several(node: ir.Node, _: int) -> bool:
    """Whether the second operand is n > 1 constant matrices [n, k, m], and the first has open sizes and no batch of n.

    OpenVINO's fully connected layer then uses the batch of the first operand alone; with four dimensions it does not.
    """
    x, weights = node.inputs
    rank = rank_of(x)
    if rank not in (2, 3) or rank_of(weights) != 3 or static_sizes(x) is not None or not _is_constant(weights):
        return False
    assert x is not None
    assert x.shape is not None
    sizes = static_sizes(weights)
    count = 1 if sizes is None else int(sizes[0])
    return count > 1 and (rank == 2 or x.shape[0] != count)


def _is_constant(value: ir.Value | None) -> bool:
    """Whether a value is stored, as it is or as integers with a scale."""
    producer = None if value is None else value.producer()
    if producer is not None and producer.op_type == "DequantizeLinear":
        value = producer.inputs[0]
    return value is not None and ir.convenience.get_const_tensor(value) is not None


def _ends_otherwise(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("activation", "") not in ("Relu", "LeakyRelu")


MISREADINGS = (
    Departure(
        ("Einsum",), _multiplies_along_unnamed_axes, "it cannot load an ellipsis of several axes in such products"
    ),
    Departure(
        ("Einsum",),
        _names_an_axis_twice_and_no_result,
        "it leaves an axis that an equation without a result names twice in the result",
    ),
    Departure(("Einsum",), _multiplies_nothing, "it fails, or ends the process, where there are no elements"),
    Departure(
        ("Einsum",),
        _multiplies_several_of_open_sizes,
        "it computes such a product of several tensors of open sizes wrong",
    ),
    Departure(("FusedGemm",), _ends_otherwise, "it always applies Relu, whatever the activation", MICROSOFT),
    Departure(("FusedMatMul",), _rows_come_first, "it ignores that the rows come before the batch", MICROSOFT),
    Departure(("MatMul",), _multiplies_with_several, "it loses the batch of several constant matrices"),
)
