"""Softmax and LogSoftmax that an exporter wrote out, as JAX has them: powers divided by their sum along an axis.

``exp(z) / Σ exp(z)`` and ``z - log(Σ exp(z))``, where z is x or ``x - max(x)``. The sum may be put into the numerator's
shape by Reshape, Unsqueeze and Expand.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

_FORMS = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_SHAPING = frozenset({"Expand", "Reshape", "Unsqueeze"})
"""Operators that may restore the summed axis, so that a sum broadcasts to the numbers that it sums."""


@dataclass(frozen=True)
class WrittenSoftmax:
    """A written-out Softmax or LogSoftmax that ends in a node."""

    op_type: str
    """``Softmax`` or ``LogSoftmax``."""
    source: ir.Value
    """The operand, before the maximum of each row is subtracted."""
    is_shifted: bool
    """Whether the maximum is subtracted, so that no exponential overflows."""
    powers: ir.Value
    """The exponentials."""
    axis: int
    """The axis of the output along which it runs, from 0, or as the node states it if the rank is unknown."""


def written_softmax(node: ir.Node) -> WrittenSoftmax | None:
    """Returns the written-out Softmax or LogSoftmax that ends in a node, or None, also for these two operators.

    Args:
        node: Any node.
    """
    if node.domain or len(node.inputs) != 2 or node.inputs[0] is None:
        return None
    first, second = node.inputs
    assert first is not None, "it was asked above"
    if node.op_type == "Sub":
        logarithm = _made_by("Log", _behind_forms(second))
        total = None if logarithm is None else logarithm.inputs[0]
        powers = None if total is None else _summed(total)
        exponential = _made_by("Exp", powers)
        if exponential is None or exponential.inputs[0] is not first:
            return None
        assert powers is not None, "an Exp made it"
        reshaped = _is_shaped(second) or _is_shaped(total)
        return _along_axis("LogSoftmax", first, powers, total, reshaped=reshaped)
    if node.op_type == "Mul":
        inverse = _made_by("Reciprocal", _behind_forms(second))
        total, reshaped = (None, False) if inverse is None else (inverse.inputs[0], _is_shaped(second))
    elif node.op_type == "Div":
        total, reshaped = second, False
    else:
        return None
    exponential = _made_by("Exp", first)
    if exponential is None or exponential.inputs[0] is None or total is None or _summed(total) is not first:
        return None
    return _along_axis("Softmax", exponential.inputs[0], first, total, reshaped=reshaped or _is_shaped(total))


def _along_axis(
    op_type: str, exponent: ir.Value, powers: ir.Value, total: ir.Value | None, *, reshaped: bool
) -> WrittenSoftmax | None:
    adding = _made_by("ReduceSum", _behind_forms(total))
    axes = None if adding is None else _axes(adding)
    if adding is None or axes is None or len(axes) != 1:
        return None
    (axis,) = axes
    sizes = None if exponent.shape is None else list(exponent.shape)
    if sizes is None and powers.shape is not None:
        sizes = list(powers.shape)
    if sizes is not None:
        axis %= len(sizes)
    if not adding.attributes.get_int("keepdims", 1) and not reshaped and axis:
        ahead = None if sizes is None else sizes[:axis]
        if ahead is None or any(size != 1 for size in ahead):
            return None  # the node divides by the sums of other rows
    source = _before_shift(exponent)
    return WrittenSoftmax(op_type, source, source is not exponent, powers, axis)


def _before_shift(value: ir.Value) -> ir.Value:
    """Returns the value from which the maximum of each row is subtracted, or the value itself if none is."""
    shift = _made_by("Sub", value)
    if shift is None or shift.inputs[0] is None:
        return value
    subtracted = _behind_forms(shift.inputs[1])
    bound = _made_by("Max", subtracted)
    for each in [subtracted] if bound is None else bound.inputs:
        largest = _made_by("ReduceMax", _behind_forms(each))
        if largest is not None and largest.inputs[0] is shift.inputs[0]:
            return shift.inputs[0]
    return value


def _summed(total: ir.Value) -> ir.Value | None:
    """Returns the operand of a sum, or None if the value is no sum."""
    adding = _made_by("ReduceSum", _behind_forms(total))
    return None if adding is None else adding.inputs[0]


def _behind_forms(value: ir.Value | None) -> ir.Value | None:
    while value is not None and (node := value.producer()) is not None and not node.domain and node.op_type in _FORMS:
        value = node.inputs[0]
    return value


def _is_shaped(value: ir.Value | None) -> bool:
    while value is not None and (node := value.producer()) is not None and not node.domain and node.op_type in _FORMS:
        if node.op_type in _SHAPING:
            return True
        value = node.inputs[0]
    return False


def _made_by(op_type: str, value: ir.Value | None) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and not node.domain and node.op_type == op_type else None


def _axes(node: ir.Node) -> list[int] | None:
    """The axes of a reduction, which are an input since operator set 13; None where they are computed or all."""
    given = node.attributes.get("axes")
    if given is not None:
        return list(given.as_ints())
    value = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]
