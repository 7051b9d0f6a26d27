"""Stored weights in the bodies of loops: they become floats once ahead of the loop, not in every round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit_openvino.loadable.stored_weights import WIDENING
from edgekit_openvino.networks import LOOPS, networks_in


def widen_ahead_of_loops(network: Any) -> None:
    """Move what makes floats of stored weights out of the bodies of loops, in place.

    OpenVINO's CPU plugin (2026.4) folds it, or does it once, in the main graph; in a body it does it in every round: an
    LSTM with peepholes takes 1.4 times as long with weights in 8 bits. Bodies that quantize activations are left as
    they are: integers are multiplied there.

    Args:
        network: The ``openvino.Model``.
    """
    for each in networks_in(network):
        for loop in [operation for operation in each.get_ordered_ops() if operation.get_type_name() in LOOPS]:
            body = loop.get_function()
            operations = body.get_ordered_ops()
            if not any(operation.get_type_name() == "FakeQuantize" for operation in operations):
                for operation in operations:
                    if _is_widened(operation) and not all(map(_is_widened, _readers(operation))):
                        _move_out(operation, loop, body)


def _move_out(operation: Any, loop: Any, body: Any) -> None:
    """Give a body what an operation on constants computes as an input that is the same in all rounds."""
    from openvino import opset13

    given = opset13.parameter(operation.output(0).get_shape(), operation.get_output_element_type(0))
    given.set_friendly_name(operation.get_friendly_name())
    for reader in operation.output(0).get_target_inputs():
        reader.replace_source_output(given.output(0))
    body.add_parameters([given])
    loop.set_invariant_input(given, operation.output(0))
    # a replaced input, unlike a new one, lets the network that the loop is in find its operations anew
    loop.input(loop.get_input_size() - 1).replace_source_output(operation.output(0))


def _readers(operation: Any) -> list[Any]:
    return [reader.get_node() for reader in operation.output(0).get_target_inputs()]


def _is_widened(operation: Any) -> bool:
    """Whether an operation makes floats of constants, some of them narrower than float32."""
    if operation.get_type_name() not in WIDENING or not operation.get_output_element_type(0).is_real():
        return False
    sources = list(_sources(operation))
    constant = all(source is not None for source in sources)  # `==` of two operations would be a third one
    return constant and any(source.get_element_type().bitwidth < 32 for source in sources)


def _sources(operation: Any) -> Iterator[Any]:
    """The constants that an operation depends on, and None for whatever else."""
    for place in range(operation.get_input_size()):
        source = operation.input_value(place).get_node()
        if source.get_type_name() in WIDENING:
            yield from _sources(source)
        else:
            yield source if source.get_type_name() == "Constant" else None
