"""Loop states that grow and whose last value nothing reads: OpenVINO assumes that they keep the size of the first.

OpenVINO leaves the sizes of a state open in the body only if something reads the state's value at the end. It folds
the sizes of other states into constants, and reductions leave out added elements (seen in OpenVINO 2026.4.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

LAST = -1
"""The step whose results a loop gives; also a number that no size is equal to."""


def read_growing_states(loop: Any) -> None:
    """Makes a result of the loop depend on the last values of all states, if one may grow; values and names stay.

    All states, because one state may become another in the next step. States whose sizes no step reads are left out.
    """
    results, parameters = loop.get_function().get_results(), loop.get_function().get_parameters()
    states = [
        (loop.get_input_partial_shape(each.input_index), results[each.body_value_index], each.body_value_index)
        for each in loop.get_input_descriptions()
        if hasattr(each, "body_value_index")
        and _has_sizes_read(parameters[each.body_parameter_index], results[each.body_value_index])
    ]
    read = [output for output in loop.outputs() if output.get_target_inputs()]
    if not read or not any(_may_differ(first, result.get_input_partial_shape(0)) for first, result, _ in states):
        return
    for _, result, place in states:
        is_handed_on = result.input_value(0).get_node().get_type_name() == "Parameter"
        if not is_handed_on and not _is_read(loop, place):
            _make_depend(read[0], loop.get_iter_value(result.output(0), LAST))


def _has_sizes_read(parameter: Any, result: Any) -> bool:
    """Whether something in the body reads a state, other than an If that it decides.

    Values that the branches of an If pass on or replace, such as flags, have no fixed number of dimensions. For such a
    state an If does not count as a reader, since the CPU plugin loads no loop that gives the state as a result.
    """
    readers = parameter.output(0).get_target_inputs()
    has_rank = result.get_input_partial_shape(0).rank.is_static
    return any(each.get_node().get_type_name() != "If" or (has_rank and each.get_index() != 0) for each in readers)


def _may_differ(first: Any, later: Any) -> bool:
    """Whether the first state's rank is known, and a later state's rank, or a size known at first, may be another."""
    if first.rank.is_dynamic:
        return False
    if later.rank.is_dynamic or len(first) != len(later):
        return True
    return any(size.is_static and size != other for size, other in zip(first, later, strict=True))


def _is_read(loop: Any, place: int) -> bool:
    """Whether something outside the loop reads the last value of a result of the body."""
    return any(
        each.body_value_index == place
        and getattr(each, "iteration", 0) == LAST
        and bool(loop.output(each.output_index).get_target_inputs())
        for each in loop.get_output_descriptions()
    )


def _make_depend(value: Any, state: Any) -> None:
    """Makes a value depend on the size of a state, by a Select whose condition is never true."""
    from openvino import opset13

    readers = value.get_target_inputs()
    elements = opset13.reduce_prod(opset13.shape_of(state), opset13.constant(np.array([0], np.int64)))
    never = opset13.equal(elements, opset13.constant(np.array(LAST, np.int64)))
    zero = opset13.convert(opset13.constant(np.array(0, np.int32)), value.get_element_type())
    chosen = opset13.select(never, zero, value).output(0)
    hand_over(value, chosen, readers)
