"""Stored weights in the bodies of loops: they become floats once ahead of the loop, not in every round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit_openvino.loadable.stored_weights import WIDENING
from edgekit_openvino.networks import LOOPS, networks_in

LARGE = 2**17
"""Elements of weights from which on a matrix product in a body is faster with the integers than with their floats:
one row times 256 x 768 takes 0.6 of the time, 128 x 384 the same time, and 32 x 96 takes 1.25 times as long."""


def widen_ahead_of_loops(network: Any) -> None:
    """Move the widening of stored weights to floats out of the bodies of loops, in place.

    In the main graph OpenVINO's CPU plugin (2026.4) folds the widening, or does it once; in a body it does it in every
    round: an LSTM with peepholes takes 1.4 times as long with weights in 8 bits. Bodies that quantize activations are
    left unchanged, since integers are multiplied there. So are large matrices with one scale per output, which products
    read as integers.

    Args:
        network: The ``openvino.Model``.
    """
    for each in networks_in(network):
        for loop in [operation for operation in each.get_ordered_ops() if operation.get_type_name() in LOOPS]:
            body = loop.get_function()
            operations = body.get_ordered_ops()
            if not any(operation.get_type_name() == "FakeQuantize" for operation in operations):
                for operation in operations:
                    if not _is_widened(operation) or all(map(_is_widened, _readers(operation))):
                        continue
                    if not _is_read_as_integers(operation):
                        _move_out(operation, loop, body)


def _move_out(operation: Any, loop: Any, body: Any) -> None:
    """Give a body the result of an operation on constants as an input that is the same in all rounds."""
    from openvino import opset13

    given = opset13.parameter(operation.output(0).get_shape(), operation.get_output_element_type(0))
    given.set_friendly_name(operation.get_friendly_name())
    for reader in operation.output(0).get_target_inputs():
        reader.replace_source_output(given.output(0))
    body.add_parameters([given])
    loop.set_invariant_input(given, operation.output(0))
    # replacing an input, unlike adding one, makes the network that the loop is in look up its operations again
    loop.input(loop.get_input_size() - 1).replace_source_output(operation.output(0))


def _is_read_as_integers(operation: Any) -> bool:
    """Whether an operation widens a large matrix of 8 bits that only matrix products read."""
    if operation.get_type_name() != "Multiply" or operation.input_value(0).get_node().get_type_name() != "Convert":
        return False
    shape = operation.output(0).get_shape()
    integers = operation.input_value(0).get_node().input_value(0).get_node()
    in_bytes = integers.get_type_name() == "Constant" and integers.get_element_type().bitwidth == 8
    readers = operation.output(0).get_target_inputs()
    multiplied = all(each.get_node().get_type_name() == "MatMul" and each.get_index() == 1 for each in readers)
    return in_bytes and multiplied and len(shape) == 2 and shape[0] * shape[1] >= LARGE


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
