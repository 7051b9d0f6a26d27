"""Reductions of one of three axes, which OpenVINO's CPU plugin (2026.4) fuses with what follows along a wrong axis.

The fused kernel adds or multiplies constants along a wrong axis of the result. It does not if the tensor has two axes,
so the two axes that stay are merged for the reduction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.exact.barriers import ROUNDING, has_several
from edgekit_openvino.exact.quantized.dropped_axes import round_apart
from edgekit_openvino.exact.quantized.merged_batches import has_channels
from edgekit_openvino.exact.replacing import hand_over, put_behind

KINDS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
AXES = 3
"""The number of axes of a tensor whose reduction the plugin fuses wrong."""


def keep_axes_of_floats(reduction: Any, constants: Collection[str], *, is_quantized: bool) -> None:
    """Makes constants behind a reduction of floats apply along their own axes; names stay.

    Args:
        reduction: One of :data:`KINDS`.
        constants: The names of the operations that depend on constants alone.
        is_quantized: Whether the network rounds to integers: what is then moved behind the reduction is fused, too.
    """
    is_real = reduction.get_element_type().is_real()
    if is_real and _is_fused(reduction, constants, is_quantized=is_quantized):
        _reduce_with_two_axes(reduction)
    elif is_quantized:
        round_apart(reduction, constants)


def keep_axes_of_integers(reduction: Any, constants: Collection[str], *, is_quantized: bool) -> bool:
    """Reduces integers in float32 where the reduction would be fused wrong; names stay.

    Args:
        reduction: One of :data:`KINDS`.
        constants: The names of the operations that depend on constants alone.
        is_quantized: Whether the network rounds to integers.

    Returns:
        Whether the reduction was changed.
    """
    if not reduction.get_element_type().is_integral():
        return False
    if not _is_fused(reduction, constants, is_quantized=is_quantized):
        return False
    _reduce_in_floats(reduction)
    return True


def _is_fused(reduction: Any, constants: Collection[str], *, is_quantized: bool) -> bool:
    if not _is_fused_wrong(reduction):
        return False
    return _meets_constants(reduction, constants) or (is_quantized and has_channels(reduction, constants))


def _is_fused_wrong(reduction: Any) -> bool:
    """Whether it reduces the first or last of three axes, or any one of integers, and the first size may not be 1."""
    shape = reduction.get_input_partial_shape(0)
    if shape.rank.is_dynamic or len(shape) != AXES:
        return False
    axis = _one_axis(reduction)
    if axis is None or 0 in shape or shape[1].is_dynamic:
        return False
    if shape[0].is_static and shape[0].get_length() == 1:
        return False
    return reduction.get_element_type().is_integral() or axis != 1


def _one_axis(reduction: Any) -> int | None:
    """Returns the axis that is reduced, a constant or, of a global pool, a range of one; None if there are several."""
    axes = reduction.input_value(1).get_node()
    if axes.get_output_partial_shape(0).is_dynamic or list(axes.get_output_shape(0)) not in ([], [1]):
        return None
    first = axes.input_value(0).get_node() if axes.get_type_name() == "Range" else axes
    return int(first.get_data().item()) % AXES if first.get_type_name() == "Constant" else None


def _meets_constants(operation: Any, constants: Collection[str]) -> bool:
    """Whether operations with constants (with several numbers, for floats) follow, which the plugin fuses.

    Where it rounds to integers behind a maximum, the plugin moves factors and terms ahead of the maximum behind it.
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
                is_integral or has_several(other.get_partial_shape()) for other in others
            ):
                return True
            seen.add(node.get_name())
            waiting.extend(node.outputs())
    return False


def _reduce_with_two_axes(reduction: Any) -> None:
    """Merges the two axes that stay into one for the reduction, and splits them again behind it."""
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
    """Returns the sizes of a tensor of three axes, with the two axes other than ``axis`` merged into one."""
    from openvino import opset13

    zero, sizes = opset13.constant(np.array(0, np.int64)), opset13.shape_of(value)
    merged = [place for place in range(AXES) if place != axis]
    own, others = (
        opset13.gather(sizes, opset13.constant(np.array(places, np.int64)), zero) for places in ([axis], merged)
    )
    product = opset13.reduce_prod(others, zero, keep_dims=True)
    return opset13.concat([own, product] if axis == 0 else [product, own], axis=0)
