"""Gives what a loop passes to its body memory of its own: parts of sequences, and states read in another shape.

The CPU plugin (2026.4) removes and adds axes in place, and computes from the result in place, up to the next state: a
sum of a part and the state, or the part itself. It then writes the next part, or another state, into the same memory
before it passes the next state on: a running sum, a delay or a recurrent layer written as a loop gives wrong numbers
from the second step on.
"""

from __future__ import annotations

from typing import Any

IN_PLACE = ("Reshape", "Split", "Squeeze", "Unsqueeze", "VariadicSplit")
"""Operations whose results may lie in the memory of what they read."""
NO_NUMBERS = ("dynamic", "string")
"""Element types that have no maximum."""


def copy_slices(loop: Any) -> None:
    """Makes a body with states read copies of parts of sequences, and of states that it reads in another shape."""
    parameters, descriptions = loop.get_function().get_parameters(), loop.get_input_descriptions()
    states = [each for each in descriptions if hasattr(each, "body_value_index")]
    parts = [each for each in descriptions if hasattr(each, "stride")]
    for each in (*parts, *states) if states else ():
        value = parameters[each.body_parameter_index].output(0)
        readers = value.get_target_inputs()
        if each in states:
            readers = {reader for reader in readers if reader.get_node().get_type_name() in IN_PLACE}
        _read_copy(value, readers)


def _read_copy(value: Any, readers: set[Any]) -> None:
    """Makes readers read a maximum of the value with itself, which OpenVINO neither removes nor computes in place."""
    from openvino import opset13

    kind = value.get_element_type()
    if readers and kind.get_type_name() not in NO_NUMBERS:
        copy = (opset13.logical_or if kind.get_type_name() == "boolean" else opset13.maximum)(value, value)
        for reader in readers:
            reader.replace_source_output(copy.output(0))
