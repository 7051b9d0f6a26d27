"""Operations that OpenVINO's CPU plugin computes otherwise than ONNX defines them, put right in the converted network.

Found with the ONNX standard's own test cases on OpenVINO 2026.4; the tests show for each that it is still so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.added_axes import KINDS as MOVED
from edgekit_openvino.exact.added_axes import add_axes_behind
from edgekit_openvino.exact.constant_operands import PRODUCTS, store_operands
from edgekit_openvino.exact.distinct_elements import keep_distinct
from edgekit_openvino.exact.dropped_axes import round_apart
from edgekit_openvino.exact.growing_states import read_growing_states
from edgekit_openvino.exact.infinite_numbers import KIND as INFINITE
from edgekit_openvino.exact.infinite_numbers import compare_with_the_greatest
from edgekit_openvino.exact.integer_comparisons import KINDS as COMPARISONS
from edgekit_openvino.exact.integer_comparisons import keep_integer_choice, keep_integer_comparison
from edgekit_openvino.exact.integer_kernels import KERNELS, keep_integer_kernel
from edgekit_openvino.exact.integer_quotients import KINDS as DIVISIONS
from edgekit_openvino.exact.integer_quotients import keep_integer_quotient
from edgekit_openvino.exact.integer_widths import keep_width
from edgekit_openvino.exact.joined_constants import KINDS as JOINED
from edgekit_openvino.exact.joined_constants import keep_apart
from edgekit_openvino.exact.merged_batches import has_channels, keep_channels_apart
from edgekit_openvino.exact.negative_factors import keep_negative_factors
from edgekit_openvino.exact.order_of_equals import keep_the_order_of_equals
from edgekit_openvino.exact.padding_numbers import KIND as PADDING
from edgekit_openvino.exact.padding_numbers import choose_padding
from edgekit_openvino.exact.quotients import keep_quotient
from edgekit_openvino.exact.replacing import hand_over, put_behind, put_in_place_of
from edgekit_openvino.exact.roundings_by_axis import KIND as ROUNDING
from edgekit_openvino.exact.roundings_by_axis import write_out
from edgekit_openvino.exact.shared_transposes import part_transposes
from edgekit_openvino.exact.sliced_inputs import copy_slices
from edgekit_openvino.exact.slopes import KIND as PRELU
from edgekit_openvino.exact.slopes import NEW_SLOPES, keep_slopes
from edgekit_openvino.exact.truth_values import compare_with_zero
from edgekit_openvino.exact.unsigned_integers import KINDS as UNSIGNED
from edgekit_openvino.exact.unsigned_integers import keep_unsigned
from edgekit_openvino.exact.upward_pools import KIND as MAX_POOL
from edgekit_openvino.exact.upward_pools import leave_windows_out

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
AXES_AT_ONCE = 2
"""Along how many axes the plugin repeats a tensor as often as computed numbers say."""
LEAST_OVERLAP = np.float32(1e-30)


def corrected(network: Any, opset: int = NEW_SLOPES) -> Any:
    """A converted ``openvino.Model``, put right in place; values keep their names.

    Args:
        network: The model.
        opset: The version of the standard operators that the ONNX model imports.
    """
    constants = _constants(network)
    is_quantized = any(operation.get_type_name() == ROUNDING for operation in network.get_ops())
    for operation in network.get_ordered_ops():
        kind = operation.get_type_name()
        if kind in MOVED:
            add_axes_behind(operation)
        is_fused_wrong = kind in REDUCTIONS and _is_fused_wrong(operation)
        if is_fused_wrong and not _meets_constants(operation, constants):  # what is moved behind it meets it, too
            is_fused_wrong = is_quantized and has_channels(operation, constants)
        if is_fused_wrong and operation.get_element_type().is_real():
            _reduce_with_two_axes(operation)
        elif is_quantized and kind in REDUCTIONS:
            round_apart(operation, constants)
        if kind in UNSIGNED and keep_unsigned(operation):
            continue
        if kind == "Convert" and (compare_with_zero(operation) or keep_width(operation)):
            continue
        if kind in DIVISIONS and keep_integer_quotient(operation):
            continue
        if kind in COMPARISONS and keep_integer_comparison(operation):
            continue
        if kind in KERNELS and keep_integer_kernel(operation):
            continue
        if is_fused_wrong and operation.get_element_type().is_integral():
            _reduce_in_floats(operation)
            continue
        if kind in EXTREMES and operation.get_element_type().is_real():
            if operation.input_value(0).get_node().get_type_name() not in NEVER:
                _keep_infinite(operation, EXTREMES[kind])
        elif kind in ORDERS and operation.get_input_element_type(0).is_real():
            _compare_in_other_order(operation, ORDERS[kind])
        elif kind in JOINED:
            if kind == "Divide":
                keep_quotient(operation)
            keep_apart(operation)
        elif kind in PRODUCTS:
            store_operands(operation, constants)
        elif kind == PRELU:
            keep_slopes(operation, opset)
        elif kind == INFINITE:
            compare_with_the_greatest(operation)
        elif kind == ROUNDING:
            write_out(operation, constants)
        elif kind == MAX_POOL:
            leave_windows_out(operation)
        elif kind == PADDING and is_quantized:
            choose_padding(operation)
        elif kind == "TopK":
            keep_the_order_of_equals(operation)
        elif kind == "Select":
            keep_integer_choice(operation)
        elif kind == "Unique":
            keep_distinct(operation)
        elif kind == "Tile":
            _repeat_two_axes_at_once(operation)
        elif kind == "NonMaxSuppression" and operation.get_input_size() > IOU_THRESHOLD:
            _keep_at_threshold(operation)
        elif kind == "ROIAlign":
            _leave_empty_regions_zero(operation)
        elif kind == "If":
            corrected(operation.get_then_body(), opset)
            corrected(operation.get_else_body(), opset)
        elif kind in ("Loop", "TensorIterator"):
            _tell_types(operation)
            corrected(operation.get_function(), opset)
            copy_slices(operation)
            if kind == "Loop":
                read_growing_states(operation)
    if is_quantized:
        keep_channels_apart(network, _constants(network))
        keep_negative_factors(network, _constants(network))
    part_transposes(network)
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
    """Whether it reduces the first or the last of three axes, of integers any, in a batch that may be more than one."""
    shape = reduction.get_input_partial_shape(0)
    if shape.rank.is_dynamic or len(shape) != FUSED_WRONG_RANK:
        return False
    axis = _one_axis(reduction)
    if axis is None or 0 in shape or shape[1].is_dynamic:
        return False
    if shape[0].is_static and shape[0].get_length() == 1:
        return False
    return reduction.get_element_type().is_integral() or axis != 1


def _one_axis(reduction: Any) -> int | None:
    """The axis that three are reduced along, a constant or, of a global pool, a range of one; None of several."""
    axes = reduction.input_value(1).get_node()
    if axes.get_output_partial_shape(0).is_dynamic or list(axes.get_output_shape(0)) not in ([], [1]):
        return None
    first = axes.input_value(0).get_node() if axes.get_type_name() == "Range" else axes
    return int(first.get_data().item()) % FUSED_WRONG_RANK if first.get_type_name() == "Constant" else None


def _constants(network: Any) -> set[str]:
    """The names of the operations that nothing but constants goes into."""
    names: set[str] = set()
    for operation in network.get_ordered_ops():
        sources = [operation.input_value(place).get_node() for place in range(operation.get_input_size())]
        is_computed = bool(sources) and all(source.get_name() in names for source in sources)
        if is_computed or operation.get_type_name() == "Constant":
            names.add(operation.get_name())
    return names


def _meets_constants(operation: Any, constants: Collection[str]) -> bool:
    """Whether constants, to floats of several numbers, are added to what it gives, or the like; the plugin fuses it.

    Where it rounds to integers behind a maximum, it moves what is multiplied and added ahead of that behind it.
    """
    is_integral = operation.get_element_type().is_integral()
    waiting, seen = list(operation.outputs()), set()
    while waiting:
        for reader in waiting.pop().get_target_inputs():
            node = reader.get_node()
            others = [node.input_value(place) for place in range(node.get_input_size()) if place != reader.get_index()]
            if node.get_name() in seen or not all(other.get_node().get_name() in constants for other in others):
                continue
            if node.get_type_name() == ROUNDING or any(
                is_integral or _has_several(other.get_partial_shape()) for other in others
            ):
                return True
            seen.add(node.get_name())
            waiting.extend(node.outputs())
    return False


def _has_several(shape: Any) -> bool:
    return bool(shape.rank.is_dynamic) or any(size.is_dynamic or size.get_length() != 1 for size in shape)


def _reduce_with_two_axes(reduction: Any) -> None:
    """Makes one axis of the two that stay, for as long as it reduces."""
    from openvino import opset13

    value, result = reduction.input_value(0), reduction.output(0)
    middle = reduction.get_input_partial_shape(0)[1].get_length()
    axis = int(_one_axis(reduction) or 0)
    kept = [1] if reduction.get_attributes()["keep_dims"] else []
    back_to = [*kept, middle, -1] if axis == 0 else [-1, middle, *kept]
    readers = result.get_target_inputs()
    flat = opset13.reshape(value, _merged(value, axis), special_zero=False)
    reduction.input(0).replace_source_output(flat.output(0))
    reduction.input(1).replace_source_output(opset13.constant(np.array([min(axis, 1)], np.int64)).output(0))
    reduction.constructor_validate_and_infer_types()
    back = opset13.reshape(result, opset13.constant(np.array(back_to, np.int64)), special_zero=False).output(0)
    hand_over(result, back, readers)


def _reduce_in_floats(reduction: Any) -> None:
    """Reduces in float32, as the plugin does with these integers anyway."""
    from openvino import opset13

    kind = reduction.get_element_type()
    reduction.input(0).replace_source_output(opset13.convert(reduction.input_value(0), "f32").output(0))
    reduction.constructor_validate_and_infer_types()
    put_behind(reduction, lambda value: opset13.convert(value, kind))
    if _is_fused_wrong(reduction):
        _reduce_with_two_axes(reduction)


def _merged(value: Any, axis: int) -> Any:
    """The sizes of a tensor of three axes with the two merged that are not the given one."""
    from openvino import opset13

    zero, sizes = opset13.constant(np.array(0, np.int64)), opset13.shape_of(value)
    merged = [place for place in range(FUSED_WRONG_RANK) if place != axis]
    own, others = (
        opset13.gather(sizes, opset13.constant(np.array(places, np.int64)), zero) for places in ([axis], merged)
    )
    product = opset13.reduce_prod(others, zero, keep_dims=True)
    return opset13.concat([own, product] if axis == 0 else [product, own], axis=0)


def _keep_infinite(reduction: Any, extreme: float) -> None:
    """Lets a reduction of nothing but the infinite number be that number."""
    from openvino import opset13

    value, axes = reduction.input_value(0), reduction.input_value(1)
    result = reduction.output(0)
    readers = result.get_target_inputs()
    infinite = opset13.constant(np.asarray(extreme, value.get_element_type().to_dtype()))
    is_all = opset13.reduce_logical_and(
        opset13.equal(value, infinite), axes, keep_dims=reduction.get_attributes()["keep_dims"]
    )
    chosen = opset13.select(is_all, infinite, result).output(0)
    hand_over(result, chosen, readers)


def _repeat_two_axes_at_once(tile: Any) -> None:
    """Repeats a tensor along two axes after the other where computed numbers say how often.

    Of more than two the plugin leaves parts of the result unwritten.
    """
    from openvino import opset13

    value, counts = tile.input_value(0), tile.input_value(1)
    rank = value.get_partial_shape().rank
    if counts.get_node().get_type_name() == "Constant" or rank.is_dynamic or rank.get_length() <= AXES_AT_ONCE:
        return
    axes, one = np.arange(rank.get_length()), opset13.constant(np.array(1, counts.get_element_type().to_dtype()))
    *groups, last = (axes // AXES_AT_ONCE == group for group in range(-(-len(axes) // AXES_AT_ONCE)))
    for group in groups:
        value = opset13.tile(value, opset13.select(opset13.constant(group), counts, one)).output(0)
    put_in_place_of(tile, opset13.tile(value, opset13.select(opset13.constant(last), counts, one)))


def _compare_in_other_order(comparison: Any, other: str) -> None:
    """Lets a comparison with NaN be false."""
    from openvino import opset13

    first, second = comparison.input_value(0), comparison.input_value(1)
    broadcast = comparison.get_attributes()["auto_broadcast"]
    put_in_place_of(comparison, getattr(opset13, other)(second, first, broadcast))


def _keep_at_threshold(suppression: Any) -> None:
    """Raises the threshold by one step of float32: boxes that overlap by just the threshold stay, as in ONNX."""
    from openvino import opset13

    threshold = opset13.convert(suppression.input_value(IOU_THRESHOLD), "f32")
    step = opset13.multiply(threshold, opset13.constant(HALF_A_STEP))
    raised = opset13.maximum(opset13.add(threshold, step), opset13.constant(LEAST_OVERLAP))
    suppression.input(IOU_THRESHOLD).replace_source_output(raised.output(0))


def _leave_empty_regions_zero(pooling: Any) -> None:
    """Gives regions without an area zeros, as in ONNX Runtime, where their size tells how many samples are taken.

    The plugin divides the sum of none by none: NaN.
    """
    from openvino import opset13

    attributes = pooling.get_attributes()
    if attributes["sampling_ratio"] != 0 or attributes["aligned_mode"] == "asymmetric":
        return  # where it is asymmetric, sizes are at least one
    corners = opset13.split(pooling.input_value(1), opset13.constant(np.array(1, np.int64)), 4)
    left, top, right, bottom = corners.outputs()
    is_empty = opset13.logical_or(opset13.less_equal(right, left), opset13.less_equal(bottom, top))
    axes = opset13.constant(np.array([2, 3], np.int64))
    zero = opset13.constant(np.array(0, pooling.get_element_type().to_dtype()))
    put_behind(pooling, lambda value: opset13.select(opset13.unsqueeze(is_empty, axes), zero, value))
