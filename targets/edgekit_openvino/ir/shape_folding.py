"""Computes what a network computes from fixed shapes, before it is written.

OpenVINO does so each time it loads a network. Its own folding, which runs before a network is written, folds large
constants as well, and is left out where they would grow; results that are computed from shapes are always small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MOST_ELEMENTS = 64
"""Elements of the largest tensor that is read or made: shapes, and what is sliced or gathered of them, are smaller."""
OF_SHAPES = frozenset(
    (
        *("ShapeOf", "Gather", "Slice", "StridedSlice", "Concat", "Reshape", "Squeeze", "Unsqueeze", "Transpose"),
        *("Add", "Subtract", "Multiply", "Divide", "Mod", "FloorMod", "Minimum", "Maximum", "Abs", "Negative"),
        *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot"),
        *("Select", "Convert", "Broadcast", "Range", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"),
    )
)
"""The operations that shapes are computed with. Others may draw random numbers, or have bodies that do not end."""
DIVISIONS = ("Divide", "Mod", "FloorMod")
"""Operations that end the process if they divide integers by zero."""


def fold_shapes(network: Any) -> None:
    """Replaces operations whose results are a few known integers by constants, in an ``openvino.Model``."""
    from openvino import opset13

    for operation in network.get_ordered_ops():
        if operation.get_type_name() not in OF_SHAPES or not _is_small(operation.output(0)):
            continue
        computed = _shape_of(operation) if operation.get_type_name() == "ShapeOf" else _evaluated(operation)
        if computed is None:
            continue
        constant = opset13.constant(computed, operation.get_output_element_type(0))
        constant.set_friendly_name(operation.get_friendly_name())
        for reader in operation.output(0).get_target_inputs():
            reader.replace_source_output(constant.output(0))


def _is_small(value: Any) -> bool:
    """Whether a value is at most :data:`MOST_ELEMENTS` integers of 8 bits or more."""
    dtype = value.get_element_type()
    known = value.get_partial_shape().is_static and dtype.is_integral() and dtype.bitwidth >= 8
    return bool(known) and int(np.prod(list(value.get_shape()))) <= MOST_ELEMENTS


def _shape_of(operation: Any) -> np.ndarray | None:
    measured = operation.input_value(0)
    if not measured.get_partial_shape().is_static:
        return None
    return np.array(list(measured.get_shape()), operation.get_output_element_type(0).to_dtype())


def _evaluated(operation: Any) -> np.ndarray | None:
    """Returns what an operation on small constants gives; None for other inputs, or if OpenVINO cannot compute it."""
    import openvino

    values = [operation.input_value(place) for place in range(operation.get_input_size())]
    if not values or not all(value.get_node().get_type_name() == "Constant" and _is_small(value) for value in values):
        return None
    given = [openvino.Tensor(np.array(value.get_node().get_data())) for value in values]
    if operation.get_type_name() in DIVISIONS and not (given[1].data > 0).all():
        return None
    result = openvino.Tensor(operation.get_output_element_type(0), operation.get_output_shape(0))
    return np.array(result.data) if operation.evaluate([result], given) else None
