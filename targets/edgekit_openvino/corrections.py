"""Operations that OpenVINO's CPU plugin computes otherwise than ONNX defines them, put right in the converted network.

Found with the ONNX standard's own test cases on OpenVINO 2026.4; the tests show for each that it is still so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.amplified import keep_difference
from edgekit_openvino.quotients import keep_quotient

EXTREMES = {"ReduceMax": -np.inf, "ReduceMin": np.inf}
"""What of nothing but this is made the number of float32 that is next to it."""

NEVER = ("Abs", "Exp", "Relu", "ReLU", "Sigmoid", "Softmax", "Tanh", "Convolution", "GroupConvolution", "MatMul")
"""Operations that make no such number of finite ones; behind them the reduction is left as it is."""

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
FUSED_WRONG_RANK = 3
"""The plugin adds or multiplies constants along another axis of a reduced tensor of this rank than they stand along."""

ORDERS = {"Greater": "less", "GreaterEqual": "less_equal"}
"""Comparisons that are true of NaN on the plugin, and those of the operands in the other order, which are false."""

IOU_THRESHOLD = 3
"""The input of NonMaxSuppression from which on boxes overlap; the plugin drops boxes that overlap by just as much."""
HALF_A_STEP = np.float32(0.75 * 2.0**-23)
"""Times a float32: between half of the distance to the next greater one and less than one and a half of it."""
LEAST_OVERLAP = np.float32(1e-30)


def corrected(network: Any) -> Any:
    """A converted ``openvino.Model``, put right in place; values keep their names."""
    for operation in network.get_ordered_ops():
        kind = operation.get_type_name()
        if kind in REDUCTIONS and _is_fused_wrong(operation):
            _reduce_with_two_axes(operation)
        if kind in EXTREMES and operation.get_element_type().is_real():
            if operation.input_value(0).get_node().get_type_name() not in NEVER:
                _keep_infinite(operation, EXTREMES[kind])
        elif kind in ORDERS and operation.get_input_element_type(0).is_real():
            _compare_in_other_order(operation, ORDERS[kind])
        elif kind in ("Divide", "Multiply"):
            if kind == "Divide":
                keep_quotient(operation)
            keep_difference(operation)
        elif kind == "NonMaxSuppression" and operation.get_input_size() > IOU_THRESHOLD:
            _keep_at_threshold(operation)
        elif kind == "If":
            corrected(operation.get_then_body())
            corrected(operation.get_else_body())
        elif kind in ("Loop", "TensorIterator"):
            _tell_types(operation)
            corrected(operation.get_function())
    network.validate_nodes_and_infer_types()
    return network


def _tell_types(loop: Any) -> None:
    """Gives a body's inputs the types of what they are fed, where the ONNX model does not tell them again."""
    body = loop.get_function()
    parameters = body.get_parameters()
    for description in loop.get_input_descriptions():
        parameter = parameters[description.body_parameter_index]
        if parameter.get_element_type().is_dynamic():
            parameter.set_element_type(loop.get_input_element_type(description.input_index))
    body.validate_nodes_and_infer_types()


def _is_fused_wrong(reduction: Any) -> bool:
    """Whether it reduces the first or the last of three axes, in a batch that is larger than one."""
    shape, axes = reduction.get_input_partial_shape(0), reduction.input_value(1).get_node()
    if not shape.is_static or len(shape) != FUSED_WRONG_RANK or not reduction.get_element_type().is_real():
        return False
    if axes.get_type_name() != "Constant" or axes.get_data().size != 1 or 0 in shape:
        return False
    return shape[0].get_length() > 1 and int(axes.get_data().item()) % FUSED_WRONG_RANK != 1


def _reduce_with_two_axes(reduction: Any) -> None:
    """Makes one axis of the two that stay, for as long as it reduces."""
    from openvino import opset13

    first, middle, last = tuple(reduction.get_input_shape(0))
    axis = int(reduction.input_value(1).get_node().get_data().item()) % FUSED_WRONG_RANK
    result = reduction.output(0)
    shape = opset13.constant(np.array(tuple(result.get_shape()), np.int64))
    readers, names = result.get_target_inputs(), result.get_tensor().get_names()
    merged = [first, middle * last] if axis == 0 else [first * middle, last]
    flat = opset13.reshape(reduction.input_value(0), opset13.constant(np.array(merged, np.int64)), False)
    reduction.input(0).replace_source_output(flat.output(0))
    reduction.input(1).replace_source_output(opset13.constant(np.array([min(axis, 1)], np.int64)).output(0))
    reduction.constructor_validate_and_infer_types()
    back = opset13.reshape(result, shape, False).output(0)
    result.get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(back)
    back.get_tensor().set_names(names)


def _keep_infinite(reduction: Any, extreme: float) -> None:
    """Lets a reduction of nothing but the infinite number be that number."""
    from openvino import opset13

    value, axes = reduction.input_value(0), reduction.input_value(1)
    result = reduction.output(0)
    readers, names = result.get_target_inputs(), result.get_tensor().get_names()
    infinite = opset13.constant(np.asarray(extreme, value.get_element_type().to_dtype()))
    is_all = opset13.reduce_logical_and(
        opset13.equal(value, infinite), axes, keep_dims=reduction.get_attributes()["keep_dims"]
    )
    chosen = opset13.select(is_all, infinite, result).output(0)
    result.get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(chosen)
    chosen.get_tensor().set_names(names)


def _compare_in_other_order(comparison: Any, other: str) -> None:
    """Lets a comparison with NaN be false."""
    from openvino import opset13

    first, second = comparison.input_value(0), comparison.input_value(1)
    result = comparison.output(0)
    readers, names = result.get_target_inputs(), result.get_tensor().get_names()
    broadcast = comparison.get_attributes()["auto_broadcast"]
    swapped = getattr(opset13, other)(second, first, broadcast)
    result.get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(swapped.output(0))
    swapped.output(0).get_tensor().set_names(names)
    swapped.set_friendly_name(comparison.get_friendly_name())


def _keep_at_threshold(suppression: Any) -> None:
    """Raises the threshold by one step of float32: boxes that overlap by just the threshold stay, as in ONNX."""
    from openvino import opset13

    threshold = opset13.convert(suppression.input_value(IOU_THRESHOLD), "f32")
    step = opset13.multiply(threshold, opset13.constant(HALF_A_STEP))
    raised = opset13.maximum(opset13.add(threshold, step), opset13.constant(LEAST_OVERLAP))
    suppression.input(IOU_THRESHOLD).replace_source_output(raised.output(0))
