"""Inputs whose numbers are never negative, as the graph's operators show: the magnitudes of a spectrum, say.

A model that begins with a logarithm, a square root or a fractional power gives NaN for negative numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.data.words import KEEPS_VALUES
from edgekit.model import Model


@dataclass(frozen=True)
class Magnitude:
    """Floating-point numbers that are not negative."""


def magnitudes(model: Model, inputs: Collection[ir.Value]) -> dict[str, Magnitude]:
    """The floating-point inputs that a logarithm, a square root or a fractional power reads.

    Operators in between may move elements, add constants that are not negative, or multiply or divide by positive ones.

    Args:
        model: The model.
        inputs: The model's inputs that are fed.
    """
    found: dict[str, Magnitude] = {}
    for node in model.graph.all_nodes():
        source = _positive_source(node.inputs[0]) if _takes_none_below_0(node) else None
        if source is not None and source in inputs and source.name and _is_float(source):
            found[source.name] = Magnitude()
    return found


def _takes_none_below_0(node: ir.Node) -> bool:
    if node.domain or not node.inputs:
        return False
    if node.op_type != "Pow":
        return node.op_type in ("Log", "Sqrt")
    exponent = _constant(node.inputs[1])
    return exponent is not None and bool((exponent != np.rint(exponent)).any())


def _positive_source(value: ir.Value | None) -> ir.Value | None:
    """The value that ``value`` is computed from by the operators that :func:`magnitudes` allows; None behind others."""
    while value is not None and (node := value.producer()) is not None:
        if node.domain:
            return None
        if node.op_type in KEEPS_VALUES and node.op_type != "Concat":
            value = node.inputs[0]
            continue
        if node.op_type not in ("Add", "Mul", "Div"):
            return None
        constants = [_constant(operand) for operand in node.inputs]
        given = [place for place, constant in enumerate(constants) if constant is not None]
        if len(given) != 1 or (node.op_type == "Div" and given == [0]):
            return None
        numbers = constants[given[0]]
        assert numbers is not None
        if not (numbers >= 0).all() or (node.op_type != "Add" and not numbers.all()):
            return None
        value = node.inputs[1 - given[0]]
    return value


def _constant(value: ir.Value | None) -> np.ndarray | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or not tensor.dtype.is_floating_point():
        return None
    return tensor.numpy().astype(np.float64)


def _is_float(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()
