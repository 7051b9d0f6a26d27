"""What OpenVINO's ONNX frontend converts into something else without a word, so that it has to be refused.

Found with the ONNX standard's own test cases on OpenVINO 2026.4; the tests show for each entry that it is still so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import OpGap
from edgekit.graph.nodes import constant_input, has_input
from edgekit.model import Model, node_name, op_name
from edgekit.operators.departures import (
    Departure,
    aligns_corners_by_broken_scales,
    departing_nodes,
    equal_channels,
    static_sizes,
)
from edgekit.rewrites.arithmetic import MASK_KEEPS
from edgekit.rewrites.control_flow import may_compute_both
from edgekit.rewrites.ml.features import Normalizer
from edgekit.rewrites.quantized_operators import MICROSOFT, QuantizedChoice, QuantizedElementwise
from edgekit_openvino.branches import with_branches

AXES_FORGOTTEN = range(13, 18)
"""Opsets in which two reductions have their axes as an attribute, and OpenVINO looks for an input."""

LANES = 16
"""Channels that its kernel for averages takes at a time on AVX-512, and 8 on AVX2."""

SEVERAL_AXES = range(11, 13)
"""Opsets in which Softmax is over all axes from one on, and OpenVINO takes that one alone."""

PADS_ARE_INPUTS = 11
"""Since this opset Pad takes what it pads with as an input."""

SEVERAL = 2
"""So many axes, or factors, are several."""

LAST_PART_MAY_BE_SMALLER = 18
"""Since this opset Split gives a number of parts that need not be equal."""

AXIS_IS_AN_INPUT = 20
"""Since this opset DFT takes its axis as an input, not as an attribute."""


def misread_nodes(model: Model) -> list[OpGap]:
    """The nodes that the frontend would convert into something else, in graph order."""
    return departing_nodes(model, MISREADINGS, "OpenVINO computes it wrong:")


def misshapen_nodes(converted: Any, model: Model) -> list[OpGap]:
    """The nodes whose outputs have another shape in OpenVINO than the ONNX standard gives them, in graph order."""
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for operation in with_branches(converted):
        for port in operation.outputs():
            for name in port.names if port.get_partial_shape().is_static else ():
                shapes.setdefault(name, set()).add(tuple(port.get_shape()))
    inferred = ShapeInferencePass()(model.graph_model.clone()).model
    gaps = []
    for node, value, shape in _static_values(inferred.graph):
        found = shapes.get(value, {shape})
        if shape not in found:
            reason = f"OpenVINO makes its output {value!r} {_text(min(found))} instead of {_text(shape)}"
            gaps.append(OpGap(op_type=op_name(node), node=node_name(node), reason=reason))
    return gaps


def _static_values(graph: ir.Graph) -> Iterator[tuple[ir.Node, str, tuple[int, ...]]]:
    for node in graph.all_nodes():
        for value in node.outputs:
            if value.name and value.shape is not None and value.shape.is_static():
                yield node, value.name, tuple(int(dim) for dim in value.shape.numpy())


def _text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a scalar"


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else value.shape.rank()


def _has_scales(node: ir.Node, _: int) -> bool:
    sizes = static_sizes(node.inputs[4])
    return sizes is None or bool(np.prod(sizes) != 1)


def _always(_: ir.Node, __: int) -> bool:
    return True


def _windowed(node: ir.Node, _: int) -> bool:
    return any(node.attributes.get_int(side, -1) >= 0 for side in ("left_window_size", "right_window_size"))


def _causal_with_past_and_more(node: ir.Node, _: int) -> bool:
    """Whether a causal mask stands beside a past, and beside another mask or more new keys than queries, or fewer."""
    if node.attributes.get_int("is_causal", 0) != 1 or not has_input(node, 4):
        return False
    queries, keys = (None if value is None or value.shape is None else value.shape[-2] for value in node.inputs[:2])
    return has_input(node, 3) or queries is None or queries != keys


def _saturates(node: ir.Node, _: int) -> bool:
    """Whether integers of 8 bits are added, subtracted, multiplied or shifted to the left."""
    return _is_narrow(node) and node.attributes.get_string("direction", "LEFT") == "LEFT"


def _has_no_opposite(node: ir.Node, _: int) -> bool:
    """Whether the least integer of 8 bits may be negated, which is itself."""
    value = node.inputs[0]
    return value is not None and value.dtype == ir.DataType.INT8


def _may_be_infinite(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    return value is None or value.dtype is None or value.dtype.is_floating_point()


def _scales_integers(node: ir.Node, _: int) -> bool:
    """Whether integers are multiplied with a fraction."""
    value = node.inputs[0]
    if value is None or value.dtype is None or not value.dtype.is_integer():
        return False
    return not all(node.attributes.get_float(factor, 1.0).is_integer() for factor in ("alpha", "beta"))


def _rounds_what_is_shifted(node: ir.Node, _: int) -> bool:
    """Whether integers of 8 bits and of open sizes are shifted to the right."""
    is_right = node.attributes.get_string("direction", "LEFT") == "RIGHT"
    return _is_narrow(node) and is_right and static_sizes(node.outputs[0]) is None


def _is_narrow(node: ir.Node, _: int = 0) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)


def _reaches_beyond_32_bits(node: ir.Node, _: int) -> bool:
    """Whether a constant leaves the range of 32 bits with a sign; the ends of 64 bits stand for infinity.

    Of a limit counts what lies on the side where it decides.
    """
    numbers = [constant_input(node, place) for place in range(len(node.inputs))]
    below, above = node.op_type != "Max", node.op_type != "Min"
    return any(_is_wide(each, below=below, above=above) for each in numbers)


def _is_wide(numbers: np.ndarray | None, *, below: bool, above: bool) -> bool:
    if numbers is None or numbers.dtype not in (np.int64, np.uint32, np.uint64):
        return False
    narrow, wide = np.iinfo(np.int32), np.iinfo(numbers.dtype)
    is_outside = ((numbers < narrow.min) & below) | ((numbers > narrow.max) & above)
    is_end = (numbers == wide.min) | (numbers == wide.max) if numbers.itemsize > narrow.dtype.itemsize else False
    return bool(np.any(is_outside & ~np.asarray(is_end)))


def _repeats_by_the_rounded_size(node: ir.Node, _: int) -> bool:
    """Whether nearest elements are asked for by factors that give no whole sizes, or may give none."""
    factors, shape = constant_input(node, 1), node.inputs[0].shape if node.inputs[0] is not None else None
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return False
    if factors is None or shape is None:
        return True
    return any(
        factor % 1 and (not isinstance(size, int) or factor * np.float32(size) % 1)
        for factor, size in zip(factors.astype(np.float32), shape, strict=True)
    )


def _has_a_fraction_in_its_bias(node: ir.Node, _: int) -> bool:
    return not node.attributes.get_float("bias", 1.0).is_integer()


def _pads_with_a_computed_number(node: ir.Node, opset: int) -> bool:
    is_constant = node.attributes.get_string("mode", "constant") == "constant"
    return opset >= PADS_ARE_INPUTS and is_constant and has_input(node, 2) and constant_input(node, 2) is None


def _may_reduce_no_axis(node: ir.Node, _: int) -> bool:
    """Whether a reduction without axes leaves all of them, so that only what it does to each element is left."""
    axes = constant_input(node, 1) if has_input(node, 1) else np.zeros(0)
    return node.attributes.get_int("noop_with_empty_axes", 0) == 1 and (axes is None or not axes.size)


def _rounds_sizes_up(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("ceil_mode", 0) == 1


def _counts_other_padding(node: ir.Node, _: int) -> bool:
    """Whether padding counts in an average, and sizes are rounded up, or what is padded is quantized around a number.

    The plugin divides by elements that are not there, and in integers it pads with 0 and not with the zero point.
    """
    pads = node.attributes.get_ints("pads", ())
    if node.attributes.get_int("count_include_pad", 0) != 1 or not any(pads):
        return False
    return (_rounds_sizes_up(node, _) and _reaches_behind(node)) or _is_quantized(node.inputs[0])


def _reaches_behind(node: ir.Node) -> bool:
    """Whether the last window along some axis, where sizes are rounded up, reaches beyond the padding."""
    x, kernel = node.inputs[0], np.array(node.attributes["kernel_shape"].as_ints())
    sizes = [] if x is None or x.shape is None else list(x.shape)[2:]
    if not sizes or not all(isinstance(size, int) for size in sizes):
        return True
    ones = [1] * len(kernel)
    strides, dilations = (np.array(node.attributes.get_ints(name, ones)) for name in ("strides", "dilations"))
    before, behind = np.reshape(node.attributes.get_ints("pads", ()), (2, -1))
    lengths = np.array(sizes)
    free = lengths + before + behind - (kernel - 1) * dilations - 1
    last = -(-free // strides) * strides
    return bool(np.any((free % strides != 0) & (last < lengths + before)))  # one that begins behind is left out


def _is_quantized(value: ir.Value | None) -> bool:
    """Whether a tensor, or one that it has its elements of, was quantized."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        producer = None if each is None else each.producer()
        if producer is not None and producer.op_type == "DequantizeLinear":
            return True
        if producer is not None and producer.op_type in KEEPS_ELEMENTS:
            waiting.extend(producer.inputs)
    return False


def _gathers_nothing(node: ir.Node, _: int) -> bool:
    indices = constant_input(node, 1)
    return indices is not None and not indices.size


def _shifts_signed(node: ir.Node, _: int) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype is not None and value.dtype.is_signed()


def _transforms_elsewhere(node: ir.Node, opset: int) -> bool:
    if opset < AXIS_IS_AN_INPUT:
        return False
    value = node.inputs[0]
    axis, rank = (constant_input(node, 2) if has_input(node, 2) else np.array(-2)), _rank(value)
    return axis is None or rank is None or int(axis.item()) % rank != 1


def _has_batch_first(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("layout", 0) == 1


def _spans_several_axes(node: ir.Node, opset: int) -> bool:
    """Whether a softmax is over all axes from one on that is not the last, as it is below opset 13."""
    axis, rank = node.attributes.get_int("axis", 1), _rank(node.inputs[0])
    return opset in SEVERAL_AXES and axis != -1 and (rank is None or axis % rank != rank - 1)


def _pads_an_output_shape_behind(node: ir.Node, _: int) -> bool:
    """Whether an output shape is given, and what is padded more stands behind."""
    return "output_shape" in node.attributes and node.attributes.get_string("auto_pad", "NOTSET") == "SAME_UPPER"


def _cuts_groups_to_a_shape(node: ir.Node, _: int) -> bool:
    """Whether an output shape is given for channels in groups."""
    return "output_shape" in node.attributes and node.attributes.get_int("group", 1) > 1


def _pads_where_sizes_are_open(node: ir.Node, _: int) -> bool:
    """Whether the pads follow from a shape, and a size is open, be it the batch's alone."""
    is_same = node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    return (is_same or "output_shape" in node.attributes) and static_sizes(node.inputs[0]) is None


def _splits_an_open_size(node: ir.Node, opset: int) -> bool:
    """Whether an open size is split in parts of which the last may be smaller."""
    x = node.inputs[0]
    if opset < LAST_PART_MAY_BE_SMALLER or has_input(node, 1):
        return False
    return x is None or x.shape is None or not isinstance(x.shape[node.attributes.get_int("axis", 0)], int)


def _multiplies_along_unnamed_axes(node: ir.Node, _: int) -> bool:
    """Whether an ellipsis of several axes stands in a product of elements, or in one of three tensors or more.

    OpenVINO 2026.4 takes an equation apart into products of two and unsqueezes one of them for a letter that it lacks.
    """
    before, arrow, after = node.attributes.get_string("equation", "").replace(" ", "").partition("->")
    operands = before.split(",")
    ranks = [_rank(value) for value in node.inputs]
    unnamed = [
        SEVERAL if rank is None else rank - len(operand.replace("...", ""))
        for operand, rank in zip(operands, ranks, strict=True)
        if "..." in operand
    ]
    if len(operands) == 1 or max(unnamed, default=0) < SEVERAL:
        return False
    adds_up = not arrow or bool(set(before) - set(after) - {","})
    return len(operands) > SEVERAL or not adds_up


def _gives_a_mask(node: ir.Node, opset: int) -> bool:
    """Whether the mask of a dropout is read that earlier versions leave zero."""
    read = len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output())
    return opset < MASK_KEEPS and bool(read)


def _has_peepholes(node: ir.Node, _: int) -> bool:
    return has_input(node, 7)


def _has_other_activations(node: ir.Node, _: int) -> bool:
    return any(name.lower() not in ACTIVATIONS for name in node.attributes.get_strings("activations", ()))


def _has_lengths_of_open_sizes(node: ir.Node, _: int) -> bool:
    """Whether sequences have lengths that follow from data or are constant, where not all sizes are known."""
    if not has_input(node, 4) or static_sizes(node.inputs[0]) is not None:
        return False
    return constant_input(node, 4) is not None or _follows_from_data(node.inputs[4])


def _follows_from_data(value: ir.Value | None) -> bool:
    """Whether more than sizes tell a value: a layer's own number of steps follows from them."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if each is None or each in seen or each.const_value is not None:
            continue
        seen.add(each)
        producer = each.producer()
        if producer is None:
            return True
        if producer.op_type not in ("Shape", "Size"):
            waiting.extend(producer.inputs)
    return False


def _is_set(attribute: str) -> Callable[[ir.Node, int], bool]:
    return lambda node, _: node.attributes.get_int(attribute, 0) == 1


def _keeps_aspect_ratio(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"


def _aligns_corners_by_broken_scales(node: ir.Node, _: int) -> bool:
    return aligns_corners_by_broken_scales(node, if_unknown=True)


def _reduces_nothing(node: ir.Node, _: int) -> bool:
    """Whether there is no element to reduce."""
    sizes = static_sizes(node.inputs[0])
    return sizes is not None and 0 in sizes


def _has_elements(node: ir.Node, _: int) -> bool:
    """Whether there are elements of a known type to reduce."""
    value = node.inputs[0]
    return value is not None and value.dtype is not None and not _reduces_nothing(node, _)


def _averages_equal_channels(node: ir.Node, _: int) -> bool:
    """Whether channels of the same numbers are averaged, some of them behind the last whole vector of its kernel."""
    return equal_channels(node.inputs[0]) % LANES > 0


def _gives_open_sizes_to_nodes(node: ir.Node, _: int) -> bool:
    """Whether a branch that may be computed together with the other gives nodes a tensor whose size is open.

    The tensor shares memory with others; where that grows, at the first inference of a larger size, some are lost.
    """
    read = [value for value in node.outputs if value.uses() and static_sizes(value) is None]
    return bool(read) and may_compute_both(node)


def _rows_come_first(node: ir.Node, _: int) -> bool:
    return any(node.attributes.get_int(f"transBatch{factor}", 0) == 1 for factor in "AB")


def _multiplies_with_several(node: ir.Node, _: int) -> bool:
    """Whether the second operand are several constant matrices [n, k, m], and the first has open sizes and n may be 1.

    Its fully connected layer then counts on the batch of the first operand alone; with four dimensions it does not.
    """
    x, weights = node.inputs
    rank = _rank(x)
    if rank not in (2, 3) or _rank(weights) != 3 or static_sizes(x) is not None or not _is_constant(weights):
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


def _has_axes_that_it_forgets(node: ir.Node, opset: int) -> bool:
    return opset in AXES_FORGOTTEN and "axes" in node.attributes


def _mode_is(mode: str) -> Callable[[ir.Node, int], bool]:
    return lambda node, _: node.attributes.get_string("mode", "") == mode


def _divides_by_maximum(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("norm", "MAX") == "MAX"


def _has_own_scale(node: ir.Node, _: int) -> bool:
    return node.attributes.get_float("scale", 0.0) != 0


def _ends_otherwise(node: ir.Node, _: int) -> bool:
    return node.attributes.get_string("activation", "") not in ("Relu", "LeakyRelu")


def _starts_later_or_turns_some(node: ir.Node, _: int) -> bool:
    return _rank(node.inputs[1]) == 1 or node.attributes.get_int("rotary_embedding_dim", 0) > 0


KEEPS_ELEMENTS = frozenset(
    {"Clip", "Concat", "Identity", "MaxPool", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators behind which the plugin still computes in integers."""
WHOLE = (
    *("Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "CumSum", "Div", "MatMul", "Max", "Min", "Mod", "Mul", "Sub"),
    *("Concat", "Expand", "Gather", "GatherElements", "GatherND", "OneHot", "Pad", "ScatterElements", "ScatterND"),
    *("Tile", "Where"),
)
"""Operators that give other integers where a constant is cut off at the greatest of 32 bits."""
ACTIVATIONS = ("relu", "sigmoid", "tanh")
"""Of recurrent layers, in small letters."""
ON_QUANTIZED = (*QuantizedElementwise.op_types, *QuantizedChoice.op_types)
MISREADINGS = (
    Departure(("Attention",), _windowed, "it ignores the window"),
    Departure(
        ("Attention",),
        _causal_with_past_and_more,
        "it misplaces a causal mask beside a past and another mask, or beside other numbers of new keys and queries",
    ),
    Departure(("Attention",), _has_own_scale, "it ignores the scale", MICROSOFT),
    Departure(WHOLE, _reaches_beyond_32_bits, "it computes in 32 bits, and a constant needs more"),
    Departure(("Abs", "Neg"), _has_no_opposite, "8-bit integers stop at their limits, and do not wrap"),
    Departure(("Add", "BitShift", "Mul", "Sub"), _saturates, "8-bit integers stop at their limits, and do not wrap"),
    Departure(("AveragePool",), _counts_other_padding, "it counts other padding than is there"),
    Departure(("BitShift",), _rounds_what_is_shifted, "it rounds shifted 8-bit integers of open sizes"),
    Departure(("BitShift",), _shifts_signed, "it shifts signed integers as unsigned ones"),
    Departure(("ConvTranspose",), _pads_an_output_shape_behind, "it pads more before than behind"),
    Departure(
        ("ConvTranspose",), _cuts_groups_to_a_shape, "it cuts off groups behind alone where an output shape is given"
    ),
    Departure(("ConvTranspose",), _pads_where_sizes_are_open, "it leaves out the padding where a size is open"),
    Departure(("DFT",), _transforms_elsewhere, "it takes axis 1 whatever the axis"),
    Departure(("DFT",), _is_set("onesided"), "it gives the one-sided transform another shape"),
    Departure(("Div",), _is_narrow, "it rounds quotients of 8-bit integers in branches and loops"),
    Departure(("Dropout",), _gives_a_mask, "it keeps everything by a mask that is zero before opset 12"),
    Departure(
        ("Einsum",), _multiplies_along_unnamed_axes, "it cannot load an ellipsis of several axes in such products"
    ),
    Departure(("FusedGemm",), _ends_otherwise, "it ends with a rectifier whatever the activation", MICROSOFT),
    Departure(("FusedMatMul",), _rows_come_first, "it ignores that the rows come before the batch", MICROSOFT),
    Departure(("Gemm",), _scales_integers, "it cuts off the fractions of factors where it multiplies integers"),
    Departure(("GlobalAveragePool",), _averages_equal_channels, "it gives the averages of equal channels an order"),
    Departure(("GRU", "LSTM", "RNN"), _has_lengths_of_open_sizes, "it ignores lengths of sequences of open sizes"),
    Departure(("GRU", "LSTM", "RNN"), _has_batch_first, "it ignores that the batch comes first (layout 1)"),
    Departure(
        ("GRU", "LSTM", "RNN"), _has_other_activations, "its layers have no activations but relu, sigmoid and tanh"
    ),
    Departure(("GroupQueryAttention",), _always, "it takes one sequence at a time", MICROSOFT),
    Departure(("If",), _gives_open_sizes_to_nodes, "it loses what follows where an open size grows"),
    Departure(("Gather",), _gathers_nothing, "it ends the process where there are no indices"),
    Departure(("LpPool",), _rounds_sizes_up, "it averages over fewer elements where sizes are rounded up"),
    Departure(("LRN",), _has_a_fraction_in_its_bias, "it cuts off the bias's fraction"),
    Departure(("LSTM",), _has_peepholes, "it ignores peepholes"),
    Departure(("LSTM",), _is_set("input_forget"), "it ignores input_forget"),
    Departure((*Normalizer.op_types,), _divides_by_maximum, "it divides by the greatest magnitude", Normalizer.domain),
    Departure(("MatMul",), _multiplies_with_several, "it loses the batch of several constant matrices"),
    Departure(("Pad",), _pads_with_a_computed_number, "it pads with zeros in place of a computed number"),
    Departure(("QLinearConv",), _has_scales, "it takes the weights' scales for those of the input's channels"),
    Departure(("QLinearMatMul",), _has_scales, "it takes one scale for the weights"),
    Departure(ON_QUANTIZED, _always, "it cuts off what it should round, and wraps around", MICROSOFT),
    Departure(("ReduceL1", "ReduceLogSum"), _has_axes_that_it_forgets, "it reduces all axes at opsets 13 to 17"),
    Departure(
        ("ReduceL1", "ReduceL2", "ReduceLogSum"), _may_reduce_no_axis, "it leaves the elements as they are without axes"
    ),
    Departure(("ReduceLogSumExp",), _has_elements, "its exponentials overflow, or vanish"),
    Departure(("ReduceMax",), _reduces_nothing, "it makes the least finite number of nothing, not minus infinity"),
    Departure(("Resize",), _is_set("antialias"), "it ignores antialias"),
    Departure(("Resize",), _is_set("exclude_outside"), "it ignores exclude_outside"),
    Departure(("Resize",), _keeps_aspect_ratio, "it ignores keep_aspect_ratio_policy"),
    Departure(("Resize",), _aligns_corners_by_broken_scales, "it aligns corners by the rounded size, not by the scale"),
    Departure(("RoiAlign",), _mode_is("max"), "it takes the greatest of other values"),
    Departure(
        ("RotaryEmbedding",),
        _starts_later_or_turns_some,
        "it counts positions from 0 where a single one is given, and turns all elements",
        MICROSOFT,
    ),
    Departure(("Shrink", "ThresholdedRelu"), _may_be_infinite, "it makes NaN of infinite numbers"),
    Departure(("Softmax",), _spans_several_axes, "it takes one axis, not all from there on"),
    Departure(("SpaceToDepth",), _mode_is("CRD"), "it ignores the mode"),
    Departure(("Split",), _splits_an_open_size, "it makes the first parts too small where a size is open"),
    Departure(("Upsample",), _repeats_by_the_rounded_size, "it repeats by the rounded size, not by the factor"),
)
