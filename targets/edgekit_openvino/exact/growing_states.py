"""States of loops that grow, of which nothing reads the last: OpenVINO takes all of them to be as large as the first.

Only where something reads what a state is at the end does OpenVINO leave its sizes open in the body. It folds the
others into constants, and reductions leave out what has been added (seen in OpenVINO 2026.4.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.exact.replacing import hand_over

LAST = -1
"""The step whose results a loop gives; and a number that no size is."""


def read_growing_states(loop: Any) -> None:
    """Has a value that the loop gives depend on the last of all states, where one may grow; values and names stay.

    What becomes of one state in a step may be another one in the next. States whose sizes no step reads are left out.
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

    Of no fixed number of dimensions are numbers that the branches of an If hand on or replace, such as flags: that
    others read them is what counts, since the CPU plugin loads no loop that gives such a state.
    """
    readers = parameter.output(0).get_target_inputs()
    has_rank = result.get_input_partial_shape(0).rank.is_static
    return any(each.get_node().get_type_name() != "If" or (has_rank and each.get_index() != 0) for each in readers)


def _may_differ(first: Any, later: Any) -> bool:
    """Whether a size of the first state is known, and a later one's is not the same."""
    if first.rank.is_dynamic:
        return False
    if later.rank.is_dynamic or len(first) != len(later):
        return True
    return any(size.is_static and size != other for size, other in zip(first, later, strict=True))


def _is_read(loop: Any, place: int) -> bool:
    """Whether something reads what a result of the body is at the end."""
    return any(
        each.body_value_index == place
        and getattr(each, "iteration", 0) == LAST
        and bool(loop.output(each.output_index).get_target_inputs())
        for each in loop.get_output_descriptions()
    )


def _make_depend(value: Any, state: Any) -> None:
    """Puts behind a value a choice of it that asks for a size of the state which none has."""
    from openvino import opset13

    readers = value.get_target_inputs()
    elements = opset13.reduce_prod(opset13.shape_of(state), opset13.constant(np.array([0], np.int64)))
    never = opset13.equal(elements, opset13.constant(np.array(LAST, np.int64)))
    zero = opset13.convert(opset13.constant(np.array(0, np.int32)), value.get_element_type())
    chosen = opset13.select(never, zero, value).output(0)
    hand_over(value, chosen, readers)
