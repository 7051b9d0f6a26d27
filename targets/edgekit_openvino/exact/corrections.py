"""Operations that OpenVINO's CPU plugin computes otherwise than ONNX defines them, put right in the converted network.

Found with the ONNX standard's own test cases on OpenVINO 2026.4; the tests show for each that it is still so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_openvino.exact.added_axes import KINDS as MOVED
from edgekit_openvino.exact.added_axes import add_axes_behind
from edgekit_openvino.exact.barriers import ROUNDING
from edgekit_openvino.exact.constant_maps import keep_maps
from edgekit_openvino.exact.constant_operands import PRODUCTS, store_operands
from edgekit_openvino.exact.distinct_elements import keep_distinct
from edgekit_openvino.exact.empty_products import make_empty_products_zero
from edgekit_openvino.exact.empty_ranges import KIND as RANGE
from edgekit_openvino.exact.empty_ranges import keep_empty_ranges
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
from edgekit_openvino.exact.named_types import name_types
from edgekit_openvino.exact.order_of_equals import keep_the_order_of_equals
from edgekit_openvino.exact.permutations import KINDS as ORDERED
from edgekit_openvino.exact.permutations import keep_order
from edgekit_openvino.exact.quantized.batched_weights import multiply_in_floats
from edgekit_openvino.exact.quantized.merged_batches import CONVOLUTIONS, keep_channels_apart
from edgekit_openvino.exact.quantized.negative_factors import keep_negative_factors
from edgekit_openvino.exact.quantized.padding_numbers import KIND as PADDING
from edgekit_openvino.exact.quantized.padding_numbers import choose_padding
from edgekit_openvino.exact.quantized.roundings_by_axis import write_out
from edgekit_openvino.exact.quantized.scaled_rows import KIND as PRODUCT
from edgekit_openvino.exact.quantized.scaled_rows import keep_scaled_rows
from edgekit_openvino.exact.quantized.slopes_at_one_place import keep_slopes_at_one_place
from edgekit_openvino.exact.quantized.transposed_convolutions import KINDS as TRANSPOSED_CONVOLUTIONS
from edgekit_openvino.exact.quantized.transposed_convolutions import keep_transposed_convolution
from edgekit_openvino.exact.quotients import keep_quotient
from edgekit_openvino.exact.reductions_ahead_of_reshapes import KINDS as REDUCED
from edgekit_openvino.exact.reductions_ahead_of_reshapes import keep_reshapes
from edgekit_openvino.exact.replacing import hand_over, put_behind, put_in_place_of
from edgekit_openvino.exact.reshaped_reductions import KINDS as OF_ROWS
from edgekit_openvino.exact.reshaped_reductions import keep_axes_of_rows
from edgekit_openvino.exact.shared_transposes import part_transposes
from edgekit_openvino.exact.sliced_inputs import copy_slices
from edgekit_openvino.exact.slopes import KIND as PRELU
from edgekit_openvino.exact.slopes import NEW_SLOPES, keep_slopes
from edgekit_openvino.exact.strided_slices import KIND as SLICE
from edgekit_openvino.exact.strided_slices import limit_strided_slices
from edgekit_openvino.exact.sums_at_one_place import SUMS, keep_sum_at_one_place
from edgekit_openvino.exact.three_axes import KINDS as REDUCTIONS
from edgekit_openvino.exact.three_axes import keep_axes_of_floats, keep_axes_of_integers
from edgekit_openvino.exact.truth_values import compare_with_zero
from edgekit_openvino.exact.unsigned_integers import KINDS as UNSIGNED
from edgekit_openvino.exact.unsigned_integers import keep_unsigned
from edgekit_openvino.exact.upward_pools import KIND as MAX_POOL
from edgekit_openvino.exact.upward_pools import leave_windows_out
from edgekit_openvino.networks import LOOPS

EXTREMES = {"ReduceMax": -np.inf, "ReduceMin": np.inf}
"""By reduction the infinite number of which, if all elements are it, the plugin makes the nearest finite float32."""

NEVER = ("Abs", "Exp", "Relu", "ReLU", "Sigmoid", "Softmax", "Tanh", "Convolution", "GroupConvolution", "MatMul")
"""Operations that make no infinite numbers of finite ones; a reduction behind one of them is left unchanged."""

ORDERS = {"Greater": "less", "GreaterEqual": "less_equal"}
"""Comparisons that the plugin computes as true for NaN, and the ones with swapped operands, which are false for NaN."""

IOU_THRESHOLD = 3
"""The index of NonMaxSuppression's overlap threshold; the plugin also drops boxes that overlap by exactly as much."""
HALF_A_STEP = np.float32(0.75 * 2.0**-23)
"""A float32 times this is at least 0.75 times, and less than 1.5 times, the distance to the next greater float32."""
AXES_AT_ONCE = 2
"""The number of axes along which the plugin repeats a tensor right where the counts are computed at run time."""
LEAST_OVERLAP = np.float32(1e-30)


@dataclass(frozen=True)
class _Context:
    """What corrections have to know besides the operation."""

    constants: Collection[str]
    """The names of the operations that depend on constants alone."""
    is_quantized: bool
    """Whether the network rounds to integers somewhere."""
    opset: int
    """The version of the standard operators that the ONNX model imports."""


_Correction = Callable[[Any, _Context], bool]
"""Corrects an operation in place; returns whether it is replaced, in which case no other correction is tried."""


def corrected(network: Any, opset: int = NEW_SLOPES) -> Any:
    """A converted ``openvino.Model``, put right in place; values keep their names.

    Args:
        network: The model.
        opset: The version of the standard operators that the ONNX model imports.
    """
    name_types(network)
    operations = network.get_ordered_ops()
    is_quantized = any(operation.get_type_name() == ROUNDING for operation in operations)
    context = _Context(_constants(network), is_quantized, opset)
    for operation in operations:
        kind = operation.get_type_name()
        for kinds, correct in _CORRECTIONS:
            if kind in kinds and correct(operation, context):
                break
        for body in _bodies(operation):
            corrected(body, opset)
        if kind in LOOPS:
            copy_slices(operation)
        if kind == "Loop":
            read_growing_states(operation)
    if is_quantized:
        keep_channels_apart(network, _constants(network))
        keep_negative_factors(network, _constants(network))
    part_transposes(network)
    network.validate_nodes_and_infer_types()
    return network


def _bodies(operation: Any) -> list[Any]:
    kind = operation.get_type_name()
    if kind == "If":
        return [operation.get_then_body(), operation.get_else_body()]
    if kind not in LOOPS:
        return []
    _tell_types(operation)
    return [operation.get_function()]


def _tell_types(loop: Any) -> None:
    """Gives a body's inputs the types of the values that they are fed, where the ONNX model does not state them."""
    body = loop.get_function()
    parameters = body.get_parameters()
    for description in loop.get_input_descriptions():
        parameter = parameters[description.body_parameter_index]
        if parameter.get_element_type().is_dynamic():
            parameter.set_element_type(loop.get_input_element_type(description.input_index))
    body.validate_nodes_and_infer_types()


def _constants(network: Any) -> set[str]:
    """The names of the operations that depend on constants alone."""
    names: set[str] = set()
    for operation in network.get_ordered_ops():
        sources = [operation.input_value(place).get_node() for place in range(operation.get_input_size())]
        is_computed = bool(sources) and all(source.get_name() in names for source in sources)
        if is_computed or operation.get_type_name() == "Constant":
            names.add(operation.get_name())
    return names


def _keep_infinite(reduction: Any, context: _Context) -> bool:
    """Makes a ReduceMax of -inf alone give -inf, and a ReduceMin of inf alone give inf."""
    from openvino import opset13

    value, axes = reduction.input_value(0), reduction.input_value(1)
    if not reduction.get_element_type().is_real() or value.get_node().get_type_name() in NEVER:
        return False
    extreme = EXTREMES[reduction.get_type_name()]
    result = reduction.output(0)
    readers = result.get_target_inputs()
    infinite = opset13.constant(np.asarray(extreme, value.get_element_type().to_dtype()))
    is_extreme, keep_dims = opset13.equal(value, infinite), reduction.get_attributes()["keep_dims"]
    if axes.get_node().get_name() in context.constants:
        is_all = opset13.reduce_logical_and(is_extreme, axes, keep_dims=keep_dims)
    else:  # the plugin has no kernel for logical reductions along computed axes
        least = opset13.reduce_min(opset13.convert(is_extreme, "f32"), axes, keep_dims=keep_dims)
        is_all = opset13.greater(least, opset13.constant(np.float32(0.5)))
    chosen = opset13.select(is_all, infinite, result).output(0)
    hand_over(result, chosen, readers)
    return False


def _repeat_two_axes_at_once(tile: Any) -> None:
    """Repeats a tensor along at most two axes at a time where the counts are computed at run time.

    Along more than two axes at a time the plugin leaves parts of the result unwritten.
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


def _compare_in_other_order(comparison: Any) -> None:
    """Makes a comparison of floats false for NaN, by swapping the operands and comparing the other way round."""
    from openvino import opset13

    if not comparison.get_input_element_type(0).is_real():
        return
    other = ORDERS[comparison.get_type_name()]
    first, second = comparison.input_value(0), comparison.input_value(1)
    broadcast = comparison.get_attributes()["auto_broadcast"]
    put_in_place_of(comparison, getattr(opset13, other)(second, first, broadcast))


def _keep_at_threshold(suppression: Any) -> None:
    """Raises the threshold by one step of float32: boxes that overlap by just the threshold stay, as in ONNX."""
    from openvino import opset13

    if suppression.get_input_size() <= IOU_THRESHOLD:
        return
    threshold = opset13.convert(suppression.input_value(IOU_THRESHOLD), "f32")
    step = opset13.multiply(threshold, opset13.constant(HALF_A_STEP))
    raised = opset13.maximum(opset13.add(threshold, step), opset13.constant(LEAST_OVERLAP))
    suppression.input(IOU_THRESHOLD).replace_source_output(raised.output(0))


def _leave_empty_regions_zero(pooling: Any) -> None:
    """Makes results of regions without an area 0, as in ONNX Runtime, where a region's size sets the number of samples.

    The plugin divides a sum of 0 samples by 0, which is NaN.
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


def _replacing(correct: Callable[[Any], bool]) -> _Correction:
    """Returns a correction that needs nothing besides the operation, and may replace it."""
    return lambda operation, _: correct(operation)


def _keeping(correct: Callable[[Any], object]) -> _Correction:
    """Returns a correction that needs nothing besides the operation, and after which other corrections are tried."""

    def keep(operation: Any, _: _Context) -> bool:
        correct(operation)
        return False

    return keep


def _keep_axes(reduction: Any, context: _Context) -> bool:
    keep_axes_of_floats(reduction, context.constants, is_quantized=context.is_quantized)
    return False


def _keep_integer_axes(reduction: Any, context: _Context) -> bool:
    return keep_axes_of_integers(reduction, context.constants, is_quantized=context.is_quantized)


def _store_operands(product: Any, context: _Context) -> bool:
    store_operands(product, context.constants)
    return False


def _keep_maps(convolution: Any, context: _Context) -> bool:
    keep_maps(convolution, context.constants)
    return False


def _keep_sum(addition: Any, context: _Context) -> bool:
    keep_sum_at_one_place(addition, context.constants)
    return False


def _keep_slopes(activation: Any, context: _Context) -> bool:
    keep_slopes(activation, context.opset)
    if context.is_quantized:
        keep_slopes_at_one_place(activation)
    return False


def _keep_scales_of_products(product: Any, context: _Context) -> bool:
    if context.is_quantized:
        multiply_in_floats(product, context.constants)
        keep_scaled_rows(product, context.constants)
    return False


def _write_out(rounding: Any, context: _Context) -> bool:
    return write_out(rounding, context.constants)


def _choose_padding(padding: Any, context: _Context) -> bool:
    return context.is_quantized and choose_padding(padding)


def _keep_transposed(operation: Any, context: _Context) -> bool:
    if context.is_quantized:
        keep_transposed_convolution(operation, context.constants)
    return False


_CORRECTIONS: Sequence[tuple[Collection[str], _Correction]] = (
    (MOVED, _keeping(add_axes_behind)),
    (REDUCTIONS, _keep_axes),
    (UNSIGNED, _replacing(keep_unsigned)),
    ({"Convert"}, _replacing(compare_with_zero)),
    ({"Convert"}, _replacing(keep_width)),
    (DIVISIONS, _replacing(keep_integer_quotient)),
    (COMPARISONS, _replacing(keep_integer_comparison)),
    (KERNELS, _replacing(keep_integer_kernel)),
    (REDUCTIONS, _keep_integer_axes),
    (EXTREMES, _keep_infinite),
    (ORDERS, _keeping(_compare_in_other_order)),
    ({"Divide"}, _keeping(keep_quotient)),
    (JOINED, _keeping(keep_apart)),
    (ORDERED, _keeping(keep_order)),
    ({PRODUCT}, _replacing(make_empty_products_zero)),
    (PRODUCTS, _store_operands),
    ({PRODUCT}, _keep_scales_of_products),
    (CONVOLUTIONS, _keep_maps),
    (SUMS, _keep_sum),
    ({PRELU}, _keep_slopes),
    ({INFINITE}, _replacing(compare_with_the_greatest)),
    ({ROUNDING}, _write_out),
    ({MAX_POOL}, _keeping(leave_windows_out)),
    ({PADDING}, _choose_padding),
    (TRANSPOSED_CONVOLUTIONS, _keep_transposed),
    ({"TopK"}, _keeping(keep_the_order_of_equals)),
    ({"Select"}, _keeping(keep_integer_choice)),
    (OF_ROWS, _keeping(keep_axes_of_rows)),
    (REDUCED, _keeping(keep_reshapes)),
    ({RANGE}, _keeping(keep_empty_ranges)),
    ({SLICE}, _keeping(limit_strided_slices)),
    ({"Unique"}, _keeping(keep_distinct)),
    ({"Tile"}, _keeping(_repeat_two_axes_at_once)),
    ({"NonMaxSuppression"}, _keeping(_keep_at_threshold)),
    ({"ROIAlign"}, _keeping(_leave_empty_regions_zero)),
)
"""Kinds of operations and the correction of each, in the order in which the corrections are tried."""
