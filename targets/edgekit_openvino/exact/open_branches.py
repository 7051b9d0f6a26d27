"""Gives outputs of an If that have open sizes memory of their own.

In OpenVINO's CPU plugin the outputs of an If share memory with other tensors. When these grow, at the first inference
of a larger size, the If goes on writing into their former memory, and its readers read other memory (seen in OpenVINO
2026.4.1, beside a Softmax times constants). The plugin looks up the memory of a loop's outputs in each inference, so
such an If is put into a loop of one step. Outputs of the network have memory of their own, unless they are converted.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.replacing import hand_over

_BODIES = ("Loop", "TensorIterator")
_GIVEN_AS_COMPUTED = {"f32", "i32", "i8", "u8"}
"""Types that the plugin gives as it computes them; it converts outputs of other types at the end."""


def keep_open_branches_apart(network: Any, *, is_body: bool = False) -> int:
    """Puts each If whose output of open size is read by more than unconverted network outputs into a loop, in place.

    Args:
        network: The ``openvino.Model``.
        is_body: Whether the network is a branch or a body of another one, so that its results are not converted.

    Returns:
        The number of Ifs that were put into a loop, those in bodies included.
    """
    found = 0
    for operation in network.get_ordered_ops():
        kind = operation.get_type_name()
        if kind in _BODIES:
            found += keep_open_branches_apart(operation.get_function(), is_body=True)
        elif kind == "If":
            for branch in (operation.get_then_body(), operation.get_else_body()):
                found += keep_open_branches_apart(branch, is_body=True)
            if any(_is_shared(output, is_body=is_body) for output in operation.outputs()):
                _put_into_a_loop(operation)
                found += 1
    if found:
        network.validate_nodes_and_infer_types()
    return found


def _is_shared(output: Any, *, is_body: bool) -> bool:
    if not output.get_partial_shape().is_dynamic:
        return False
    converted = not is_body and output.get_element_type().to_string() not in _GIVEN_AS_COMPUTED
    return any(converted or each.get_node().get_type_name() != "Result" for each in output.get_target_inputs())


def _put_into_a_loop(choice: Any) -> None:
    from openvino import Model, opset13

    given = [choice.input_value(place) for place in range(choice.get_input_size())]
    parameters = [opset13.parameter(value.get_partial_shape(), value.get_element_type()) for value in given]
    results = [opset13.result(value) for value in _copied(choice, parameters)]
    goes_on = opset13.result(opset13.constant(True))
    loop = opset13.loop(opset13.constant(1, dtype="int64"), opset13.constant(True))
    loop.set_function(Model([goes_on, *results], parameters, choice.get_friendly_name()))
    loop.set_special_body_ports([-1, 0])
    for parameter, value in zip(parameters, given, strict=True):
        loop.set_invariant_input(parameter, value)
    for output, result in zip(choice.outputs(), results, strict=True):
        hand_over(output, loop.get_iter_value(result.output(0), -1))
    loop.set_friendly_name(choice.get_friendly_name())


def _copied(choice: Any, parameters: list[Any]) -> list[Any]:
    """Returns the outputs of a new If with the same branches that reads ``parameters``."""
    from openvino import opset13

    copy = opset13.if_op(parameters[0])
    copy.set_friendly_name(choice.get_friendly_name())
    branches = (choice.get_then_body(), choice.get_else_body())
    copy.set_then_body(branches[0])
    copy.set_else_body(branches[1])
    read = [{each.input_index: each.body_parameter_index for each in choice.get_input_descriptions(n)} for n in (0, 1)]
    for place, parameter in enumerate(parameters[1:], 1):
        feeds = [
            branch.get_parameters()[places[place]] if place in places else None
            for branch, places in zip(branches, read, strict=True)
        ]
        copy.set_input(parameter.output(0), *feeds)
    gives = [{each.output_index: each.body_value_index for each in choice.get_output_descriptions(n)} for n in (0, 1)]
    return [
        copy.set_output(*(branch.get_results()[places[n]] for branch, places in zip(branches, gives, strict=True)))
        for n in range(choice.get_output_size())
    ]
